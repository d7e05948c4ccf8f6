package peers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// EtcdFollower is an etcd server with a distant leader, like [Follower] for ZooKeeper.
//
// The members of a cluster know each other by one address each, so there is one proxy in
// front of each member, not one for each direction. A member sends on connections that
// the others have dialled. So what the follower sends gets the whole delay of a round
// trip, and what it receives gets none. For the follower that is the same as half of it
// each way.
type EtcdFollower struct {
	*Etcd

	all   []*Etcd
	front []*ensemble.Proxy // in front of each member
	self  int
}

// StartEtcdFollower starts three servers, each in its own folder below parent. The caller
// must Close the EtcdFollower, which stops all of them.
func StartEtcdFollower(ctx context.Context, parent string) (*EtcdFollower, error) {
	f := new(EtcdFollower)
	if err := f.start(ctx, parent); err != nil {
		return nil, errors.Join(fmt.Errorf("peers: etcd: %w", err), f.Close())
	}
	return f, nil
}

func (f *EtcdFollower) start(ctx context.Context, parent string) error {
	var each []member
	var cluster []string
	for i := range members {
		e, err := newEtcd(ctx, parent)
		if err != nil {
			return err
		}
		f.all = append(f.all, e)
		m := member{name: fmt.Sprintf("member%d", i)}
		if m.peer, err = freeAddr(); err != nil {
			return err
		}
		p, err := ensemble.NewProxy(m.peer)
		if err != nil {
			return err
		}
		f.front = append(f.front, p)
		m.known = p.Addr()
		cluster = append(cluster, m.name+"=http://"+m.known)
		each = append(each, m)
	}
	for i, e := range f.all {
		each[i].all = strings.Join(cluster, ",")
		if err := e.start(each[i]); err != nil {
			return err
		}
	}
	for i, e := range f.all {
		if err := e.ready(ctx); err != nil {
			return err
		}
		c, err := e.Counters(ctx)
		if err != nil {
			return err
		}
		if c["etcd_server_is_leader"] == 0 {
			f.Etcd, f.self = e, i
		}
	}
	return nil
}

// Lag sets the round trip to the leader.
func (f *EtcdFollower) Lag(roundTrip time.Duration) {
	f.front[f.self].Lag(ensemble.ToClient, roundTrip)
}

// Close ends the servers and the proxies, and removes their data.
func (f *EtcdFollower) Close() (err error) {
	for _, e := range f.all {
		err = errors.Join(err, e.Close())
	}
	for _, p := range f.front {
		err = errors.Join(err, p.Close())
	}
	return err
}
