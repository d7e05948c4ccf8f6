package wire

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// This file is about the end of a connection, and the limits of its patience.

// SetDeadline sets both deadlines. During the handshake none of the three setters can move one beyond that of the handshake; the deadline
// that was asked for takes effect when the handshake is over.
func (w *wire) SetDeadline(t time.Time) error {
	return errors.Join(w.SetReadDeadline(t), w.SetWriteDeadline(t))
}

// SetReadDeadline sets the deadline for Read; see [wire.SetDeadline].
func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readBy = t
	return w.conn.SetReadDeadline(w.clamp(w.patient(t)))
}

// patient returns the deadline, or the moment in which the oldest request has waited long enough, if that is earlier. It is called with
// mu held.
func (w *wire) patient(t time.Time) time.Time {
	since := w.owed()
	if w.handshaking || since.IsZero() {
		return t
	}
	timeout, now := w.link.Timeout(), w.link.Events.Now()
	if debt := w.link.Owing(); !debt.IsZero() && w.granted.Sub(debt) < MostPatience(timeout) {
		since = debt // the callers have waited since then
	}
	end := time.Now().Add(requestPatience(timeout, now.Sub(since)))
	if t.IsZero() || end.Before(t) {
		return end
	}
	return t
}

// SetWriteDeadline sets the deadline for Write; see [wire.SetDeadline].
func (w *wire) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeBy = t
	if !w.handshaking {
		return nil // it goes with the written bytes, which may be sent after the client has taken the deadline back
	}
	return w.conn.SetWriteDeadline(w.clamp(t))
}

func (w *wire) clamp(t time.Time) time.Time {
	if w.handshaking && (t.IsZero() || t.After(w.deadline)) {
		return w.deadline
	}
	return t
}

// Fail closes the connection because of err, reports the error, and returns it.
func (w *wire) Fail(err error) error {
	w.leaveDebt(err)
	if w.end() {
		w.report(err)
	}
	// An error of closing would be about a connection that is given up for a worse one.
	_ = w.hangUp()
	if errors.Is(err, errSecondSession) || errors.Is(err, errSessionReplaced) {
		w.link.replace(err)
	}
	return err
}

// lose notes that the connection failed under a Read or Write and returns the error with what it means. The client closes the connection.
func (w *wire) lose(err error) error {
	w.mu.Lock()
	handshaking, asked, ours := w.handshaking, w.asked, w.closed
	w.mu.Unlock()
	if ours {
		return err
	}
	refused, failed := false, new(exchangeError)
	switch {
	case !handshaking:
		err = ending{request: w.longest()}.explain(err)
	case errors.As(err, &failed), errors.Is(err, ErrDenied):
		refused = true
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("%w: %w", errHandshakeTimeout, err)
	default:
		err, refused = ending{handshaking: true, resuming: asked != 0, secured: w.secured}.explain(err), true
	}
	w.leaveDebt(err)
	if w.end() {
		w.report(err)
		if refused {
			w.link.refused(asked, err)
		}
		if errors.Is(err, ErrDenied) {
			w.link.denied(err)
		}
	}
	return err
}

// longest returns the length of the longest request that is not answered.
func (w *wire) longest() (length int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.pending {
		length = max(length, s.length)
	}
	return length
}

// leaveDebt has the link remember since when an answer is owed, if the connection is given up for that.
func (w *wire) leaveDebt(err error) {
	if errors.Is(err, ErrSilent) || errors.Is(err, os.ErrDeadlineExceeded) {
		w.link.leaveDebt(w.owing())
	}
}

// end records when the connection ended. Only the first call counts, and returns true: an error that follows from our own Close is no
// reason.
func (w *wire) end() bool {
	w.mu.Lock()
	if !w.ended.IsZero() {
		w.mu.Unlock()
		return false
	}
	w.ended = time.Now()
	left := w.cutOff()
	w.mu.Unlock()
	w.unanswered(left)
	return true
}

// lifetime returns for how long the connection carried a session: 0 if it never did.
func (w *wire) lifetime() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.established.IsZero():
		return 0
	case w.ended.IsZero():
		return time.Since(w.established)
	}
	return w.ended.Sub(w.established)
}

// leave has the client hear of the connection's end only when it has asked for the end of its session. It reports whether it is not too
// late for that. The reason: the client does not answer a request that it takes after its last look at its queue, and waits a second:
//
//  1. It is told to quit.
//  2. Its connection ends. Its loop sees that it has to quit, answers all requests and ends.
//  3. It asks for the end of its session.
//
// With no request under way nothing waits for the news of 2, so it may come after 3.
func (w *wire) leave() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaving = !w.gone
	return w.leaving
}

// stay returns when the client may hear of the end.
func (w *wire) stay() {
	w.mu.Lock()
	stays := w.leaving && !w.established.IsZero() // during the handshake the client dials anew, and gets a [farewell]
	w.gone = !stays
	w.mu.Unlock()
	if stays {
		<-w.left
	}
}

// pingFrame is a ping as the client writes it.
const pingFrame = "\x00\x00\x00\x08\xff\xff\xff\xfe\x00\x00\x00\x0b"

// isLatePing reports whether it is a ping after the last request. It is of no use, and it can cost the answer to that request:
//
//  1. The client asks for the end of its session. 10,000 nodes go, and it is sent an event for each.
//  2. The server answers, and closes the connection. The client has not read all of that yet.
//  3. A ping arrives at the closed connection, and the server's system resets it. What was not read is thrown away.
func (w *wire) isLatePing(p []byte) bool {
	select {
	case <-w.left:
		return string(p) == pingFrame
	default:
		return false
	}
}

// Close closes the socket for the client, and lets a client that leaves hear of it.
func (w *wire) Close() error {
	w.once.Do(func() { close(w.left) })
	return w.hangUp()
}

// hangUp closes the socket at once, with no farewell. It is idempotent and unblocks Read and Write.
func (w *wire) hangUp() error {
	w.end()
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	w.mu.Unlock()
	if !first {
		return nil
	}
	w.cancel()
	return w.socket.Close()
}

// LocalAddr returns the address of our end.
func (w *wire) LocalAddr() net.Addr { return w.conn.LocalAddr() }

// RemoteAddr returns the address of the server's end.
func (w *wire) RemoteAddr() net.Addr { return w.conn.RemoteAddr() }
