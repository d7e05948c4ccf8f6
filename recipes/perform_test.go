package recipes

import (
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// A recorder is a Performer that notes what it is asked for.
type recorder []Effect

func (r *recorder) Create(e Create)   { *r = append(*r, e) }
func (r *recorder) Cancel(e Cancel)   { *r = append(*r, e) }
func (r *recorder) List(e List)       { *r = append(*r, e) }
func (r *recorder) Watch(e Watch)     { *r = append(*r, e) }
func (r *recorder) Claim(e Claim)     { *r = append(*r, e) }
func (r *recorder) Advance(e Advance) { *r = append(*r, e) }
func (r *recorder) Survey(e Survey)   { *r = append(*r, e) }
func (r *recorder) Enter(e Enter)     { *r = append(*r, e) }
func (r *recorder) Delete(e Delete)   { *r = append(*r, e) }
func (r *recorder) Pause(e Pause)     { *r = append(*r, e) }
func (r *recorder) Discard(e Discard) { *r = append(*r, e) }
func (r *recorder) Grant(e Grant)     { *r = append(*r, e) }
func (r *recorder) Lose(e Lose)       { *r = append(*r, e) }
func (r *recorder) Queue(e Queue)     { *r = append(*r, e) }
func (r *recorder) Requeue(e Requeue) { *r = append(*r, e) }
func (r *recorder) Revoke(e Revoke)   { *r = append(*r, e) }
func (r *recorder) Finish(e Finish)   { *r = append(*r, e) }

func TestPerformCarriesOutEveryEffectInOrder(t *testing.T) {
	effects := []Effect{
		Finish{WhyReleased}, Create{1, 2}, Cancel{1}, List{1, 2, true, true}, Requeue{}, Watch{1, "a"}, Claim{1, "b", RecordRead}, Delete{1, "c", true, true}, Advance{1, "f", "g", "h"},
		Survey{1, "i", true}, Enter{1, "j", 2, 3, true}, Discard{"d"}, Grant{"e", 5, 7, nil}, Lose{events.ReasonRevoked}, Queue{3}, Create{2, 3}, Pause{2, 4}, Revoke{6},
	}
	var got recorder
	Perform(effects, &got)
	if !slices.Equal(got, effects) {
		t.Errorf("performed %v, want %v", got, effects)
	}
}
