package session

// This file makes one transaction of the requests of several seats.

// joint is a transaction with the requests of several seats, all of one kind.
type joint struct {
	slot

	of    []joined
	count int // of their nodes
	bytes int
}

func (j *joint) refuse(s *Session) {
	for _, r := range j.of {
		r.refuse(s)
	}
}

// joined is a request in a joint transaction, and the nodes that it checks or deletes.
type joined struct {
	*seatRequest

	nodes []string
}

// joiner is a kind of joint transaction.
type joiner interface {
	request
	// add adds a request. It returns false if that cannot be joined or there is no room.
	add(r *seatRequest) bool
}

// mostJoined limits the bytes of a joint transaction, to far less than a server accepts
// in a request.
const mostJoined = 64 << 10

// addNodes adds a request with these nodes, unless there would be more than most nodes, or
// too many bytes. The first request always fits.
func (j *joint) addNodes(r *seatRequest, nodes []string, most int) bool {
	const each = 32 // more than a check or a delete takes in addition to its path
	count, bytes := j.count+len(nodes), j.bytes
	for _, node := range nodes {
		bytes += each + len(node)
	}
	if len(j.of) > 0 && (count > most || bytes > mostJoined) {
		return false
	}
	j.of, j.count, j.bytes = append(j.of, joined{r, nodes}), count, bytes
	return true
}

// gather returns the request to make for one that was just removed from the queue: j, if
// it can be joined, with those that wait after it, as far as they can be, too.
func (s *Session) gather(r *seatRequest, j joiner) request {
	if j.where().epoch = r.epoch; !j.add(r) {
		return r
	}
	for {
		next, ok := s.pending.first(r.lane).(*seatRequest)
		if !ok || next.epoch != r.epoch || !j.add(next) {
			return j
		}
		s.pending.remove(next)
		next.onDequeue(s)
	}
}
