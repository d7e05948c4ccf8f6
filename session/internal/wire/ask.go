package wire

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"
	"sync"
	"time"
)

// This file asks another server whether it serves. A session does so before it hangs up
// on a silent one: if no other server answers, or all of them are as slow, to hang up
// costs time that the lease needs.
//
// The question is a four-letter word on a connection of its own. It needs no session, no
// quorum and no right, and every server answers it, if only by saying that the word is
// not in its whitelist.

const (
	// word asks for the server's state. It is the only word that is enabled by default.
	word = "srvr"
	// mostAnswer is more than a server has to say.
	mostAnswer = 4 << 10
)

// peer is a server that can be asked: an entry of the connect string, or one of the
// addresses of a name.
type peer struct{ name, addr string }

// Ask reports whether another server than the current one says that it serves. The next
// connection then goes there. It asks them in the order in which they would be dialled,
// the next one when one fails or is silent for a moment, until ctx ends.
func (d *Dialer) Ask(ctx context.Context) bool {
	d.mu.Lock()
	w := d.current
	d.mu.Unlock()
	if w == nil {
		return false
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)() //nolint:contextcheck // the dialer's end, beside the caller's
	others := d.hosts.others(w.server, addressOf(w.socket))
	answers, asked, failed := make(chan *peer, len(others)), 0, 0
	stagger := time.NewTimer(0) // the first is asked at once
	defer stagger.Stop()
	for failed < len(others) {
		select {
		case <-ctx.Done():
			return false
		case <-stagger.C:
			if asked == len(others) {
				continue
			}
			p := others[asked]
			asked++
			asking.Go(func() {
				if d.serves(ctx, p) {
					answers <- &p
				} else {
					answers <- nil
				}
			})
			stagger.Reset(min(mostStagger, d.Timeout()/20))
		case p := <-answers:
			if p != nil {
				d.hosts.prefer(*p)
				return true
			}
			failed++
			stagger.Reset(0)
		}
	}
	return false
}

// serves asks one server.
func (d *Dialer) serves(ctx context.Context, p peer) bool {
	socket, err := d.dial(ctx, "tcp", p.addr)
	if err != nil {
		return false
	}
	defer context.AfterFunc(ctx, func() { _ = socket.Close() })() // it unblocks what follows
	defer socket.Close()
	conn := socket
	if d.tls != nil {
		if conn, err = secure(ctx, socket, p.name, d.tls()); err != nil {
			return false
		}
	}
	if _, err := conn.Write([]byte(word)); err != nil {
		return false
	}
	answer, _ := io.ReadAll(io.LimitReader(conn, mostAnswer)) // without its end it is an answer, too
	return says(answer)
}

// says reports whether a server that answers so would take a session. Without a quorum it
// would not.
func says(answer []byte) bool {
	return len(answer) > 0 && !bytes.Contains(answer, []byte("not currently serving")) && !bytes.Contains(answer, []byte("Mode: read-only"))
}

// others returns the servers but the one at the address, in the order in which they would
// be dialled.
func (h *Hosts) others(server, address string) (all []peer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hosts := slices.Clone(h.hosts)
	slices.SortStableFunc(hosts, func(a, b host) int { return cmp.Compare(a.last(), b.last()) })
	for _, host := range hosts {
		for _, a := range host.addresses {
			if host.name != server || a.addr != address {
				all = append(all, peer{host.name, a.addr})
			}
		}
		if len(host.addresses) == 0 && host.name != server {
			all = append(all, peer{host.name, host.name})
		}
	}
	return all
}

// prefer has a server dialled before all others, once.
func (h *Hosts) prefer(p peer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	host := h.find(p.name)
	host.tried = first
	for i := range host.addresses {
		if host.addresses[i].addr == p.addr {
			host.addresses[i].tried = first
		}
	}
	host.sort()
}
