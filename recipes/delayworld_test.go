package recipes

// This file is about a world's lock-delay: what the record says of it, and the truth, which is how much has passed since a crash.

type delay struct {
	taken  uint8 // 1 + the node that has taken the record over
	mark   mark
	says   bool // the record has a delay
	behind behind
}

// A mark is the record's.
type mark uint8

const (
	markNone mark = iota
	markMade
	markOver // the delay has passed since the mark
)

// behind is how much of the delay has passed since the latest crashed holder's node went.
type behind uint8

const (
	behindAll   behind = 0 // or no holder has crashed
	behindCrash behind = 1 << iota
	behindMark         // only the time since a mark that was made behind the crash
	behindSays         // with one of these: the holder had the delay
)

const early violation = "a grant within the lock-delay"

// delays reports whether a client has the option.
func (cl *client) delays() bool { return cl.role&roleDelays != 0 }

// foundDelay is what a client's session finds in the record, and looks up in its own option.
func (w *world) foundDelay(c int, own, writer uint8, f Found) Found {
	if w.delay.says || w.clients[c].delays() && w.clients[c].role&roleTakes == 0 {
		f.Delay = 1
	}
	f.Marked = w.delay.mark != markNone
	f.Taken = w.delay.taken == own+1 || writer != noNode && w.delay.taken == writer+1
	return f
}

// marked returns the record with a mark. Without one it makes it now.
func (w *world) marked(on delay) delay {
	if on.mark == markNone {
		on.mark = markMade
		if on.behind&behindCrash != 0 {
			on.behind += behindMark - behindCrash
		}
	}
	return on
}

// since is how much of the delay, whose whole is 1, has passed since the mark.
func (d delay) since() (passed int64) {
	if d.mark == markOver {
		return 1
	}
	return 0
}

// delayOver lets the delay pass.
func (w *world) delayOver() {
	w.delay.mark = markOver
	if w.delay.behind&behindMark != 0 {
		w.delay.behind = behindAll
	}
}

// delayedBy notes that nodes of crashed holders are gone.
func (w *world) delayedBy(nodes uint8) {
	says, counts := behind(0), false
	for c := range w.clients {
		if counts = counts || w.clients[c].delays(); w.clients[c].delays() && w.mineOf(c, 0, nodes) != 0 {
			says = behindSays
		}
	}
	if counts {
		w.delay.behind = behindCrash | says | w.delay.behind&behindSays
	}
}

// within reports whether a client that is granted the lock should have waited.
func (w *world) within(c int) bool {
	return w.delay.behind&(behindCrash|behindMark) != 0 && (w.delay.behind&behindSays != 0 || w.clients[c].delays())
}
