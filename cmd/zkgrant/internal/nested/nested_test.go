package nested

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const guid = "_c_00000000-0000-0000-0000-00000000000"

// at returns a contender with the session, which is also in its name, and the kind.
func at(session int64, kind events.Kind) events.Contender {
	return events.Contender{Node: fmt.Sprintf("/a/%s%d-x-%010d", guid, session, session), Session: session, Kind: kind}
}

func permits(session int64, permits int, holds bool) events.Contender {
	c := at(session, events.KindLock)
	c.Permits, c.Holding = permits, holds
	if holds {
		c.Node = fmt.Sprintf("/a/leases/%s%d-lease-%010d", guid, session, session)
	}
	return c
}

// Session 1 is the outer zkgrant's, and 9 the contender's own.
func TestWhatIsInTheWay(t *testing.T) {
	const lock, reads, writes = events.KindLock, events.KindRead, events.KindWrite
	exclusive, reader := Contender{Session: 9}, Contender{Session: 9, Reads: true}
	wants := func(permits, size int) Contender { return Contender{Session: 9, Permits: permits, Size: size} }
	outer := []Node{{"/a/" + guid + "1-x-0000000001", "0x1"}}
	unfair := events.Contender{Node: "/a", Session: 1, Kind: events.KindUnfair, Holding: true}
	for name, test := range map[string]struct {
		c     Contender
		outer []Node
		queue []events.Contender
		want  bool
	}{
		"a lock in itself":                    {exclusive, outer, []events.Contender{at(1, lock), at(9, lock)}, true},
		"behind another one":                  {exclusive, outer, []events.Contender{at(1, lock), at(2, lock), at(9, lock)}, true},
		"another lock":                        {exclusive, outer, []events.Contender{at(2, lock), at(9, lock)}, false},
		"its node is gone":                    {exclusive, outer, []events.Contender{at(9, lock)}, false},
		"another session's":                   {exclusive, []Node{{outer[0].Node, "0x2"}}, []events.Contender{at(1, lock), at(9, lock)}, false},
		"another node of the session":         {exclusive, []Node{{"/a/" + guid + "5-x-0000000001", "0x1"}}, []events.Contender{at(1, lock), at(9, lock)}, false},
		"no outer lock":                       {exclusive, nil, []events.Contender{at(1, lock), at(9, lock)}, false},
		"a writer in a reader":                {exclusive, outer, []events.Contender{at(1, reads), at(9, writes)}, true},
		"a reader in a writer":                {reader, outer, []events.Contender{at(1, writes), at(9, reads)}, true},
		"a reader in a reader":                {reader, outer, []events.Contender{at(1, reads), at(9, reads)}, false},
		"a reader behind a writer":            {reader, outer, []events.Contender{at(1, reads), at(2, writes), at(9, reads)}, true},
		"a reader before a writer":            {reader, outer, []events.Contender{at(1, reads), at(9, reads), at(2, writes)}, false},
		"a reader behind a writer before":     {reader, outer, []events.Contender{at(2, writes), at(1, reads), at(9, reads)}, false},
		"a member of a multi-lock":            {exclusive, append(slices.Clone(outer), Node{"/b/x", "0x1"}), []events.Contender{{Node: "/b/x", Session: 1}, at(9, lock)}, true},
		"another path of a multi-lock":        {reader, outer, []events.Contender{at(1, reads), at(9, reads), {Node: "/b/x", Session: 3, Kind: writes}, {Node: "/b/y", Session: 9, Kind: reads}}, false},
		"an unfair lock":                      {exclusive, []Node{{"/a", "0x1"}}, []events.Contender{unfair}, true},
		"an unfair lock of another process":   {exclusive, []Node{{"/a", "0x3"}}, []events.Contender{unfair}, false},
		"a semaphore with room":               {wants(1, 2), outer, []events.Contender{permits(1, 1, true), permits(9, 1, false)}, false},
		"a semaphore that others have filled": {wants(1, 2), outer, []events.Contender{permits(1, 1, true), permits(2, 1, true), permits(9, 1, false)}, false},
		"a semaphore without room":            {wants(2, 2), outer, []events.Contender{permits(1, 1, true), permits(9, 2, false)}, true},
		"behind one that needs the room":      {wants(1, 3), outer, []events.Contender{permits(1, 2, true), permits(2, 2, false), permits(9, 1, false)}, true},
		"two outer permits":                   {wants(1, 2), append(slices.Clone(outer), Node{"/a/" + guid + "2-x-0000000002", "0x2"}), []events.Contender{permits(1, 1, true), permits(2, 1, true), permits(9, 1, false)}, true},
	} {
		node, got := test.c.InTheWay(test.queue, test.outer)
		eventstest.Equal(t, [2]bool{got, node != ""}, [2]bool{test.want, test.want}, "%s: %q", name, node)
	}
}

// Each zkgrant passes on the nodes that it was given, and adds its own at the end.
func TestOuter(t *testing.T) {
	first := []string{"HOME=/", "ZKGRANT_NODE=/a/1", "ZKGRANT_SESSION=0x1"}
	second := append(Environment(Outer(first)), "ZKGRANT_NODE=/b/2", "ZKGRANT_SESSION=0x2", `ZKGRANT_MEMBERS=[{"path":"/b","node":"/b/2"},{"path":"/c","node":"/c/2"}]`)
	eventstest.Equal(t, fmt.Sprint(Outer(second)), "[{/a/1 0x1} {/b/2 0x2} {/c/2 0x2}]", "the nodes")
	for _, none := range [][]string{nil, {"ZKGRANT_NODE=/a/1"}, {"ZKGRANT_SESSION=0x1"}, {Variable + "=no list"}} {
		got := Outer(none)
		eventstest.Expect(t, len(got) == 0 && Environment(got) == nil, "of %q: %v, want no node", none, got)
	}
	chain := first
	for i := range 100 {
		chain = append(Environment(Outer(chain)), fmt.Sprint("ZKGRANT_NODE=/a/", i), "ZKGRANT_SESSION=0x3")
	}
	if got := Outer(chain); len(got) != most+1 || got[most].Node != "/a/99" {
		t.Errorf("after 100 generations there are %d nodes, %v last, want %d and the newest", len(got), got[len(got)-1], most+1)
	}
	var members []Node
	for i := range 100 {
		members = append(members, Node{Node: fmt.Sprint("/m/", i)})
	}
	list, err := json.Marshal(members)
	eventstest.Must(t, err)
	got := Outer([]string{"ZKGRANT_MEMBERS=" + string(list), "ZKGRANT_NODE=/m/0", "ZKGRANT_SESSION=0x4"})
	eventstest.Equal(t, len(got), len(members), "nodes of a multi-lock")
}
