package ensemble

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// ports are the ports of one server. They stay the same when it is restarted.
type ports struct {
	client, quorum, election int
}

// The ports are below the range from which operating systems number outgoing connections.
// A killed server leaves its port free for a while. In that range, any outgoing
// connection could take the port meanwhile, even that of a client that tries to reach the
// dead server, which would then be connected to itself.
const (
	lowestPort  = 10000
	highestPort = 32000
)

// FreePort returns a free port for another kind of server.
func FreePort() (int, error) {
	picked, err := pickPorts(1)
	if err != nil {
		return 0, err
	}
	return picked[0].client, nil
}

// pickPorts returns free ports for n servers. If another process takes one afterwards,
// the start of that server fails and is repeated with other ports.
func pickPorts(n int) (picked []ports, err error) {
	var listeners []net.Listener // kept open until all ports are found, so that none is picked twice
	defer func() {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
	}()
	pick := func() (int, error) {
		var last error
		for range 1000 {
			port := lowestPort + rand.IntN(highestPort-lowestPort)
			l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err == nil {
				listeners = append(listeners, l)
				return port, nil
			}
			last = err
		}
		return 0, fmt.Errorf("ensemble: no free port: %w", last)
	}
	for range n {
		var p ports
		for _, to := range []*int{&p.client, &p.quorum, &p.election} {
			if *to, err = pick(); err != nil {
				return nil, err
			}
		}
		picked = append(picked, p)
	}
	return picked, nil
}
