package recipes

import (
	"fmt"
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func named(kind events.Kind, seq int64) events.Name {
	return events.Name{Text: fmt.Sprintf("%s%010d", kind.Marker(), seq), Kind: kind, Seq: seq}
}

// TestKazoosNamesKeepToThemselves: a contender with one of kazoo's names ends when it
// sees a name that kazoo does not see, whether that contender is before or after it,
// holds or waits. It leaves no node. It accepts every name of kazoo's.
func TestKazoosNamesKeepToThemselves(t *testing.T) {
	for _, rule := range []Rule{Mutex{Kazoo: true}, Write{Kazoo: true}, Read{Kazoo: true}} {
		for kind := events.KindLock; kind <= events.KindWriteLock; kind++ {
			for _, seq := range []int64{3, 7} {
				t.Run(fmt.Sprintf("%T/%v/%d", rule, kind, seq), func(t *testing.T) {
					other := named(kind, seq)
					mine := Own{Name: named(rule.Kind(), 5), Owner: 77, Token: 500}
					m, _ := run(NewMachine(rule), opened, Started{}, Created{Epoch: 1, Node: mine.Name})
					m, effects := after(m, Listed{Epoch: 1, Queue: []events.Name{other, mine.Name}, Own: mine})
					stays := m.state == Waiting || m.state == Claiming
					eventstest.Expect(t, stays == kind.Kazoo(),
						"behind its listing it is %v and does %q, want it to stay: %v", m.state, texts(effects), kind.Kazoo())
					if kind.Kazoo() {
						return
					}
					eventstest.Equal(t, texts(effects), "delete "+short(mine.Name.Text), "behind its listing")
					_, effects = after(m, Deleted{Epoch: 1})
					eventstest.Equal(t, texts(effects), `END "mixed queue"`, "when its node is deleted")
				})
			}
		}
	}
}

func TestATryWithKazoosNamesTellsAMixedQueueFromABusyOne(t *testing.T) {
	for _, c := range []struct {
		ahead events.Kind
		want  string
	}{
		{events.KindLock, `END "mixed queue"`},
		{events.KindWriteLock, `END "mixed queue"`},
		{events.KindKazooLock, `END "busy"`},
	} {
		m, _ := run(NewMachine(Mutex{Kazoo: true}), opened, Started{Try: true})
		_, effects := after(m, Listed{Epoch: 1, Queue: []events.Name{named(c.ahead, 3)}})
		eventstest.Equal(t, texts(effects), c.want, "behind a %v", c.ahead)
	}
}
