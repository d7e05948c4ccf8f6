package actors

// This file is about the place of one who waits.

// Position returns how many stand ahead of it, as of the latest listing. It is not ok if it does not wait, or has not listed since
// it queued up.
func (l *Lock) Position() (ahead int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != waiting || !l.placed {
		return 0, false
	}
	return int(l.ahead), true
}

// stands notes how many stand ahead. Whoever is told of it finds it.
func (l *Lock) stands(ahead int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.placed, l.ahead = true, int32(ahead)
}

// losesPlace notes that it queues up anew.
func (l *Lock) losesPlace() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.placed = false
}
