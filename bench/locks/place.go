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
	zookeeper, etcd endpoint // etcd has no server if it is left out

	lag     func(roundTrip time.Duration) // nil if the place has no distance to set
	closers []func() error
}

// endpoint is a server as its clients know it.
type endpoint struct {
	server
	addr string
}

// server is a server that reports its own counters.
type server interface {
	Counters(ctx context.Context) (map[string]float64, error)
	ProcessorTime() (time.Duration, error)
}

func (p *place) of(key string) endpoint {
	if key == keyEtcd {
		return p.etcd
	}
	return p.zookeeper
}

func (p *place) close() (err error) {
	for _, end := range p.closers {
		err = errors.Join(err, end())
	}
	p.closers = nil
	return err
}

// farAway returns the place with a proxy before each of its servers, which makes the way
// there and back as long as lag says. The caller still ends the servers, and closes the
// returned place to end the proxies.
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

// farLeaders starts three servers of each kind, and returns a place beside a follower.
// The way between the follower and its leader is as long as lag says, and the third
// server is beside the leader. The caller must close the place.
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
