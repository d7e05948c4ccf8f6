package main

import (
	"context"
	"errors"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// place is a set of servers for all libraries.
type place struct {
	zookeeper, etcd endpoint // etcd has no server if it is missing

	lag     func(roundTrip time.Duration) // sets the distance; nil if the place has none
	closers []func() error
}

// endpoint is a server with the address for its clients.
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

// farAway returns p with a proxy in front of each server, whose round trip lag sets. The
// caller still ends the servers, and closes the returned place to end the proxies.
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

// farLeaders starts three servers of each kind, and returns a place at a follower. lag
// sets the round trip between the follower and its leader. The third server is near the
// leader. The caller must close the place.
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
