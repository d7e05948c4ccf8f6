package main

import (
	"context"
	"errors"
	"net"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// etcd is a client of etcd with one lease, which etcd's client calls a session.
type etcd struct {
	client  *clientv3.Client
	session *concurrency.Session
	others  []*concurrency.Session // one for each contender
}

func openEtcd(ctx context.Context, addr string, m *meter) (client, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{addr},
		Logger:    zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return m.dial(ctx, "tcp", addr)
		})},
	})
	if err != nil {
		return nil, err
	}
	e := &etcd{client: c}
	if e.session, err = e.newSession(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return e, nil
}

// newSession creates a lease with the common session timeout. ctx bounds only the
// creation.
func (e *etcd) newSession(ctx context.Context) (*concurrency.Session, error) {
	lease, err := e.client.Grant(ctx, int64(sessionTimeout.Seconds()))
	if err != nil {
		return nil, err
	}
	return concurrency.NewSession(e.client, concurrency.WithLease(lease.ID))
}

// another returns a new lease for a contender.
func (e *etcd) another() (*concurrency.Session, error) {
	session, err := e.newSession(e.client.Ctx())
	if err == nil {
		e.others = append(e.others, session)
	}
	return session, err
}

func (e *etcd) lock(path string) (mutex, error) {
	return etcdMutex{concurrency.NewMutex(e.session, path)}, nil
}

// contender creates its own lease, because two mutexes with the same lease at the same
// path are one contender.
func (e *etcd) contender(path string) (mutex, error) {
	session, err := e.another()
	if err != nil {
		return nil, err
	}
	return etcdMutex{concurrency.NewMutex(session, path)}, nil
}

func (e *etcd) other(u use, path string) (mutex, error) {
	if u.kind != kindElection {
		return nil, errNotOffered
	}
	session, err := e.another()
	if err != nil {
		return nil, err
	}
	return etcdElection{concurrency.NewElection(session, path)}, nil
}

// close revokes every lease. Unlike in ZooKeeper, closing the connection does not end a
// lease, and a thousand leases that expire at once would disturb a later measurement.
func (e *etcd) close() error {
	err := e.session.Close()
	for _, other := range e.others {
		err = errors.Join(err, other.Close())
	}
	return errors.Join(err, e.client.Close())
}

type etcdMutex struct{ mutex *concurrency.Mutex }

func (m etcdMutex) acquire(ctx context.Context) error { return m.mutex.Lock(ctx) }
func (m etcdMutex) release() error                    { return m.mutex.Unlock(context.Background()) }

type etcdElection struct{ election *concurrency.Election }

func (e etcdElection) acquire(ctx context.Context) error {
	return e.election.Campaign(ctx, "candidate")
}
func (e etcdElection) release() error { return e.election.Resign(context.Background()) }
