package recipes

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// queueFrom makes a queue of letters, the oldest first: r a reader of ours, c one of Curator's, k one of kazoo's, w a
// writer, m a mutex, u upgradable, x an upgrade.
func queueFrom(t *testing.T, letters string) (queue []events.Name) {
	t.Helper()
	forms := map[rune]string{
		'r': "_c_00000000-0000-8000-8000-000000000000-__READ__", 'c': "_c_00000000-0000-4000-8000-000000000000-__READ__", 'k': "__rlock__",
		'w': "__WRIT__", 'm': "lock-", 'u': "upgr-__WRIT__", 'x': "upgw-__WRIT__",
	}
	for i, l := range letters {
		name, ok := events.ParseName(fmt.Sprintf("%s%010d", forms[l], i))
		if !ok {
			t.Fatalf("%c makes no name", l)
		}
		queue = append([]events.Name{name}, queue...)
	}
	return queue
}

// TestWhomAnUpgradeWaitsFor: the upgradable reader is the first u, the upgrade the last x. Who blocks it is marked.
func TestWhomAnUpgradeWaitsFor(t *testing.T) {
	for _, tt := range []struct{ queue, blocks string }{
		{"ux", ""},
		{"rux", "+"},
		{"rcux", "++"},  // whoever reads, and came before
		{"urx", " +"},   // ours behind it do not wait for it
		{"ucx", ""},     // Curator's do
		{"ukx", " +"},   // who knows
		{"uwrx", ""},    // it waits for the writer, and he for us
		{"urwrx", " +"}, // and one who came before him does not
		{"umrx", ""},    // as for a writer
		{"uurx", "  +"}, // the second one waits for the first, and the reader for neither
		{"uwkx", "  +"}, // who knows
		{"uxrx", " +"},  // another one of the same; the reader waits for that
		{"urxx", " ++"}, // and both
		{"wux", "+"},    // there is none, for a writer ahead would have kept it from the lock
		{"xux", "+"},    // what another one has left behind, perhaps with a function that still runs
	} {
		queue := queueFrom(t, tt.queue)
		of := int64(slices.Index([]byte(tt.queue), 'u'))
		if tt.queue == "uurx" {
			of = 0
		}
		me := queue[0]
		rule := Upgrade{Of: of}
		got := ""
		nearest := int64(-1)
		for i := range tt.queue {
			c := queue[len(queue)-1-i]
			if slices.Contains(rule.awaited(queue, me), c) {
				for len(got) < i {
					got += " "
				}
				got += "+"
				nearest = c.Seq
			}
		}
		if got != tt.blocks {
			t.Errorf("%s: %q, want %q", tt.queue, got, tt.blocks)
		}
		blockers := rule.Blockers(queue, me)
		if len(blockers) > 1 || (len(blockers) == 1) != (nearest >= 0) || len(blockers) == 1 && blockers[0].Seq != nearest {
			t.Errorf("%s: blocked by %v", tt.queue, blockers)
		}
		if n := ahead(rule, queue, me); n != len(rule.awaited(queue, me)) {
			t.Errorf("%s: %d ahead", tt.queue, n)
		}
	}
}

// TestWhoIsBesideAnUpgradableReader: readers of ours, and nobody else who comes behind it.
func TestWhoIsBesideAnUpgradableReader(t *testing.T) {
	for _, tt := range []struct {
		queue string
		rule  Rule
		want  int64 // who blocks the last one; -1: nobody
	}{
		{"ur", Read{}, -1}, {"uru", Upgradable{}, 0}, {"ru", Upgradable{}, -1}, {"cu", Upgradable{}, -1}, {"wru", Upgradable{}, 0},
		{"mu", Upgradable{}, 0}, {"uw", Write{}, 0}, {"um", Mutex{}, 0}, {"uxr", Read{}, 1}, {"uwr", Read{}, 1}, {"urxu", Upgradable{}, 2},
		{"uxw", Write{}, 1},
	} {
		queue := queueFrom(t, tt.queue)
		got := int64(-1)
		if blockers := tt.rule.Blockers(queue, queue[0]); len(blockers) == 1 {
			got = blockers[0].Seq
		}
		if got != tt.want {
			t.Errorf("%s: the last one is blocked by %d, want %d", tt.queue, got, tt.want)
		}
	}
}

// TestWhoGivesWay: a reader with somebody upgradable ahead and an upgrade behind.
func TestWhoGivesWay(t *testing.T) {
	for queue, want := range map[string]bool{"urx": true, "rux": false, "ur": false, "urw": false, "wrx": false, "rx": false, "uurx": true} {
		all := queueFrom(t, queue)
		for _, c := range all {
			if c.Kind == events.KindRead && overtaken(Read{}, all, c) != want {
				t.Errorf("%s: %v", queue, !want)
			}
		}
		if overtaken(Write{}, all, all[len(all)-1]) {
			t.Errorf("%s: a writer gives way", queue)
		}
	}
}

// TestAReaderGivesWay: with its node, in the same session, and says that it has lost its place. Who only tries ends.
func TestAReaderGivesWay(t *testing.T) {
	queue := queueFrom(t, "urx")
	for _, try := range []bool{false, true} {
		m := NewMachine(Read{})
		for _, in := range []Input{Opened{Epoch: 1, Session: 77}, Started{Try: try}} {
			m, _ = m.Step(in)
		}
		if try {
			m, _ = m.Step(Listed{Epoch: 1})
		}
		m, _ = m.Step(Created{Epoch: 1, Node: queue[1]})
		m, effects := m.Step(Listed{Epoch: 1, Queue: queue, Own: Own{Name: queue[1], Owner: 77, Token: 5}})
		want := []Effect{Discard{Node: queue[1].Text}, Create{Epoch: 1, Attempt: 2}, Requeue{}}
		if try {
			want = []Effect{Delete{Epoch: 1, Node: queue[1].Text}}
		}
		if !slices.Equal(effects, want) {
			t.Errorf("try %v: %v: %v", try, m.State(), effects)
		}
	}
}

// TestAReaderBehindSomebodyUpgradableLists: it does not believe that the writer was the only one ahead.
func TestAReaderBehindSomebodyUpgradableLists(t *testing.T) {
	for letters, want := range map[string]State{"uwr": Listing, "wr": Claiming, "wur": Listing} {
		queue := queueFrom(t, letters)
		m := NewMachine(Read{})
		var writer events.Name
		for _, c := range queue {
			if c.Kind == events.KindWrite {
				writer = c
			}
		}
		for _, in := range []Input{
			Opened{Epoch: 1, Session: 77}, Started{}, Created{Epoch: 1, Node: queue[0]},
			Listed{Epoch: 1, Queue: queue, Own: Own{Name: queue[0], Owner: 77, Token: 5}}, Gone{Epoch: 1, Node: writer.Text},
		} {
			m, _ = m.Step(in)
		}
		if m.State() != want {
			t.Errorf("%s: %v, want %v", letters, m.State(), want)
		}
	}
}

// TestAnUpgradeHasTwoNodes: when one is said to be gone the other one is still to be removed, but not after the end of the session.
func TestAnUpgradeHasTwoNodes(t *testing.T) {
	queue := queueFrom(t, "ux")
	me := queue[0]
	begin := []Input{
		Opened{Epoch: 1, Session: 77}, Started{}, Created{Epoch: 1, Node: me}, Listed{Epoch: 1, Queue: queue, Own: Own{Name: me, Owner: 77, Token: 5}},
	}
	for name, tt := range map[string]struct {
		inputs []Input
		want   []Effect
	}{
		"claiming": {[]Input{Refused{Epoch: 1, Op: OpClaim, Missing: true}},
			[]Effect{Discard{Node: me.Text}, Create{Epoch: 1, Attempt: 2}, Requeue{}}},
		"held": {[]Input{Claimed{Epoch: 1, Fresh: true}, Gone{Epoch: 1, Node: me.Text}},
			[]Effect{Lose{Reason: events.ReasonNodeRemoved}, Delete{Epoch: 1, Node: me.Text}, Finish{Why: WhyLost}}},
		"expired": {[]Input{Claimed{Epoch: 1, Fresh: true}, Expired{}},
			[]Effect{Lose{Reason: events.ReasonSessionExpired}, Finish{Why: WhyLost}}},
		"released": {[]Input{Claimed{Epoch: 1, Fresh: true}, Withdrawn{Why: WhyReleased}}, []Effect{Delete{Epoch: 1, Node: me.Text}}},
	} {
		m := NewMachine(Upgrade{Of: 0})
		var effects []Effect
		for _, in := range append(slices.Clone(begin), tt.inputs...) {
			m, effects = m.Step(in)
		}
		if !slices.Equal(effects, tt.want) {
			t.Errorf("%s: %v: %v", name, m.State(), effects)
		}
	}
}

// TestAnUpgradeBehindAnotherOneLists: its token may be smaller by now than that of the one that has left.
func TestAnUpgradeBehindAnotherOneLists(t *testing.T) {
	for _, letters := range []string{"uxx", "urx"} {
		queue := queueFrom(t, letters)
		m := NewMachine(Upgrade{})
		for _, in := range []Input{
			Opened{Epoch: 1, Session: 77}, Started{}, Created{Epoch: 1, Node: queue[0]},
			Listed{Epoch: 1, Queue: queue, Own: Own{Name: queue[0], Owner: 77, Token: 5}},
		} {
			m, _ = m.Step(in)
		}
		want := []Effect{List{Epoch: 1, Attempt: 1}}
		if letters == "urx" {
			want = []Effect{Claim{Epoch: 1, Node: queue[0].Text}}
		}
		if m, effects := m.Step(Gone{Epoch: 1, Node: queue[1].Text}); !slices.Equal(effects, want) {
			t.Errorf("%s: %v: %v", letters, m.State(), effects)
		}
	}
}

// TestAPartOfAnUpgradeIsRemoved: a node whose create had an unknown outcome is found when the upgradable reader's is gone.
func TestAPartOfAnUpgradeIsRemoved(t *testing.T) {
	queue := queueFrom(t, "ux")
	for _, withdrawn := range []bool{false, true} {
		m := NewMachine(Upgrade{})
		for _, in := range []Input{Opened{Epoch: 1, Session: 77}, Started{}, Unknown{Epoch: 1, Op: OpCreate}} {
			m, _ = m.Step(in)
		}
		want := []Effect{Discard{Node: queue[0].Text}, Create{Epoch: 1, Attempt: 2}, Requeue{}}
		if withdrawn {
			m, _ = m.Step(Withdrawn{Why: WhyReleased})
			want = []Effect{Delete{Epoch: 1, Node: queue[0].Text}}
		}
		found := Listed{Epoch: 1, Queue: queue[:1], Own: Own{Name: queue[0], Owner: 77, Token: 5}, Parted: true}
		if m, effects := m.Step(found); !slices.Equal(effects, want) {
			t.Errorf("withdrawn %v: %v: %v", withdrawn, m.State(), effects)
		}
	}
}
