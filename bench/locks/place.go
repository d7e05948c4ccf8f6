package main

import (
	"context"
	"errors"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// place is where the servers of all libraries are.
type place struct {
	zookeeper, etcd endpoint // that of etcd has no server if etcd is left out

	lag     func(roundTrip time.Duration) // nil where no distance can be set
	closers []func() error
}

// endpoint is a server as its clients know it.
type endpoint struct {
	server
	addr string
}

// server is one that can be asked about itself.
type server interface {
	Counters(ctx context.Context) (map[string]float64, error)
	ProcessorTime() (time.Duration, error)
}

// of is the one that the library uses.
func (p *place) of(key string) endpoint {
	if key == keyEtcd {
		return p.etcd
	}
	return p.zookeeper
}

// close ends what the place consists of.
func (p *place) close() (err error) {
	for _, end := range p.closers {
		err = errors.Join(err, end())
	}
	p.closers = nil
	return err
}

// farAway returns the place with all of its servers behind a proxy each, which makes the way to them and back as long as
// lag says. The servers remain the caller's to end, and the proxies are to be closed.
func farAway(p *place) (far *place, err error) {
	var fronts []*ensemble.Proxy
	far = &place{lag: func(roundTrip time.Duration) {
		for _, front := range fronts {
			front.Lag(ensemble.BothWays, roundTrip/2)
		}
	}}
	behind := func(e endpoint) (endpoint, error) {
		if e.server == nil {
			return e, nil
		}
		front, err := ensemble.NewProxy(e.addr)
		if err != nil {
			return e, err
		}
		fronts = append(fronts, front)
		far.closers = append(far.closers, front.Close)
		return endpoint{e.server, front.Addr()}, nil
	}
	if far.zookeeper, err = behind(p.zookeeper); err == nil {
		far.etcd, err = behind(p.etcd)
	}
	if err != nil {
		return nil, errors.Join(err, far.close())
	}
	return far, nil
}

// farLeaders starts three servers of each kind, and returns a place beside one that follows: the way between that one
// and its leader is as long as lag says, and the third server is beside the leader. The place is to be closed.
func farLeaders(ctx context.Context, disk string, withEtcd bool) (p *place, err error) {
	p = new(place)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	zookeeper, err := peers.StartFollower(ctx, disk, serverSettings()...)
	if err != nil {
		return p, err
	}
	p.closers = append(p.closers, zookeeper.Close)
	p.zookeeper = endpoint{zookeeper, zookeeper.Addr}
	p.lag = zookeeper.Lag
	if !withEtcd {
		return p, nil
	}
	etcd, err := peers.StartEtcdFollower(ctx, disk)
	if err != nil {
		return p, err
	}
	p.closers = append(p.closers, etcd.Close)
	p.etcd = endpoint{etcd, etcd.Addr}
	p.lag = func(roundTrip time.Duration) {
		zookeeper.Lag(roundTrip)
		etcd.Lag(roundTrip)
	}
	return p, nil
}
