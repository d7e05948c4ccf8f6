package schedules

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/zkgrant/zkgrant/coordinator"
)

// story matches the events of an acquisition in a stream, one letter for each.
var story = regexp.MustCompile(`^[qr]*(Gb*L?E|E)$`)

// unfinished matches a story without an end: the end was dropped, because the stream had
// no reader when the coordinator was closed.
var unfinished = regexp.MustCompile(`^[qr]*(Gb*L?)?$`)

// judgeStreams compares the events of the streams with those of the channels.
func (w *world) judgeStreams() {
	for _, c := range w.clients {
		for _, l := range c.lives {
			if l.read == nil {
				continue
			}
			for id, said := range l.said {
				told := story.MatchString(said) || l.cutShort && unfinished.MatchString(said)
				w.expect(told, "stream of %s about %d: %s", c.name, id, said)
			}
			for _, r := range l.known {
				said := l.said[r.id]
				err, ended := l.ended[r.id]
				switch {
				case l.cutShort:
				case said == "" && r.belated && errors.Is(r.a.Err(), coordinator.ErrClosed): // the stream may have ended earlier
				case said == "":
					r.failf("the stream has not a word about it")
				case (r.loss != nil) != strings.Contains(said, "L"), r.tenure != nil && !strings.Contains(said, "G"):
					r.failf("stream: %s; granted %v, lost %v", said, r.tenure != nil, r.loss != nil)
				case strings.Contains(said, "b") && r.tenure != nil && !w.asked.has(nameOf(r.tenure.grant.Node)) &&
					!w.revoked.has(r.path):
					r.failf("asked back without a request: %s", said)
				case ended && fmt.Sprint(err) != fmt.Sprint(r.a.Err()): // they are not always the same value
					r.failf("stream: ended with %v; acquisition: %v", err, r.a.Err())
				}
			}
		}
	}
}
