package moving_test

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/sasl"
)

// The calls that the page's tables name, for the compiler only: no test makes them.
var _ = []any{ofZkLock, ofCurator, ofCuratorsBuilder, ofKazoo, ofEtcd, ofClientGo}

func ofZkLock(ctx context.Context, c *coordinator.Coordinator, path, user, password string, auth, data []byte, acl []zk.ACL) error {
	_ = coordinator.WithAuth("digest", auth)
	_ = coordinator.WithSASL(sasl.DigestMD5(user, password))
	_ = c.Mutex(path, coordinator.WithACL(acl))
	_ = c.Mutex(path).Acquire(ctx, coordinator.WithData(data))
	a := c.Mutex(path).Acquire(ctx)
	if _, err := a.Wait(ctx); err != nil {
		return err
	}
	<-a.Granted()
	a.Release()
	<-a.Done()
	if err := a.Err(); err != nil {
		return err
	}
	_, err := coordinator.Open("zk1:2181,zk2:2181", coordinator.WithSessionTimeout(10*time.Second))
	return err
}

func ofCurator(
	ctx context.Context, c *coordinator.Coordinator, path, another, s string, f func(context.Context, events.Grant) error,
) (*coordinator.Coordinator, error) {
	_ = c.Mutex(path, coordinator.Reentrant())
	a := c.Mutex(path).Acquire(ctx, coordinator.WithMaxWait(10*time.Second))
	_ = c.Mutex(path).Acquire(ctx, coordinator.Try())
	_ = a.Valid()
	if _, err := c.Mutex(path).Queue(ctx); err != nil {
		return nil, err
	}
	const root = "/locks"
	_ = c.Locks(ctx, root)
	if err := c.Mutex(path).Do(ctx, f); err != nil {
		return nil, err
	}
	_ = c.Mutex(path, coordinator.Revocable())
	const grace = 10 * time.Second
	if err := c.Revoke(ctx, path, grace); err != nil {
		return nil, err
	}
	rw := c.ReadWrite(path, coordinator.Reentrant())
	_, _ = rw.Read(), rw.Write()
	locks := []*coordinator.Lock{rw.Read(), c.Mutex(another)}
	_ = c.Multi(locks...)
	_, _ = c.Semaphore(path, 1), c.Semaphore(path, 4)
	_ = c.Semaphore(path, 4).Acquire(ctx, coordinator.WithPermits(2))
	_ = c.Mutex(path, coordinator.Cached()).Acquire(ctx)
	_ = c.Semaphore(path, 4, coordinator.AdoptSize()).Resize(ctx, 5)
	e := c.Election(path)
	e.Campaign(ctx).Release()
	for _, err := range e.Terms(ctx) {
		if err != nil {
			return nil, err
		}
	}
	<-e.Observe(ctx)
	if _, err := e.Queue(ctx); err != nil {
		return nil, err
	}
	if err := latch(ctx, c, another); err != nil {
		return nil, err
	}
	<-a.Lost()
	<-a.Revoked()
	<-a.Context(ctx).Done()
	<-c.Events(ctx)
	if err := life(ctx, s); err != nil {
		return nil, err
	}
	return coordinator.Connect(ctx, s+"/app")
}

func life(ctx context.Context, servers string) error {
	c, err := coordinator.Open(servers)
	if err != nil {
		return err
	}
	return errors.Join(c.Ready(ctx), c.Shutdown(ctx), c.Close())
}

func ofKazoo(ctx context.Context, c *coordinator.Coordinator, path, another string) (*coordinator.Coordinator, error) {
	_ = c.Mutex(path, coordinator.AsKazoo())
	_ = coordinator.WithData([]byte("host-7"))
	rw := c.ReadWrite(path, coordinator.AsKazoo())
	_, _ = rw.Read(), rw.Write()
	_ = c.Semaphore(another, 4)
	for _, err := range c.Election(path, coordinator.AsKazoo()).Terms(ctx, coordinator.WithData([]byte("host-7"))) {
		if err != nil {
			return nil, err
		}
	}
	return coordinator.Connect(ctx, "zk1:2181,zk2:2181/app")
}

func ofEtcd(ctx context.Context, c *coordinator.Coordinator, servers, path, value string, ops ...any) (*coordinator.Coordinator, error) {
	if err := ofEtcdsElection(ctx, c, path, value); err != nil {
		return nil, err
	}
	a := c.Mutex("/locks/total").Acquire(ctx)
	_ = a.Grant()
	if _, err := a.Txn(ctx, ops...); err != nil {
		return nil, err
	}
	return coordinator.Connect(ctx, servers, coordinator.WithSessionTimeout(10*time.Second))
}

func latch(ctx context.Context, c *coordinator.Coordinator, another string) error {
	for term, err := range c.Election(another).Terms(ctx) {
		if err != nil {
			return err
		}
		_ = term.Valid()
	}
	const id = "host-7"
	_ = coordinator.WithData([]byte(id))
	callbacks := leading()
	return c.Election(another).Run(ctx, callbacks)
}

func ofCuratorsBuilder(d time.Duration, scheme string, auth []byte, acl []zk.ACL) []coordinator.Option {
	return []coordinator.Option{
		coordinator.WithSessionTimeout(d), coordinator.WithAuth(scheme, auth), coordinator.WithACL(acl), coordinator.WithLossOnSuspend(),
	}
}

func ofEtcdsElection(ctx context.Context, c *coordinator.Coordinator, path, value string) error {
	_ = c.Locks(ctx, "/locks")
	e := c.Election(path)
	a := e.Campaign(ctx, coordinator.WithData([]byte(value)))
	<-e.Observe(ctx)
	a.Release()
	return e.Proclaim(ctx, a, []byte(value))
}

func ofClientGo(ctx context.Context, c *coordinator.Coordinator, path, identity string, hooks ...coordinator.Hook) error {
	_ = coordinator.WithHooks(hooks...)
	_ = c.Events(ctx)
	callbacks := leading()
	e := c.Election(path)
	if err := e.Run(ctx, callbacks); err != nil {
		return err
	}
	return e.Run(ctx, callbacks, coordinator.WithData([]byte(identity)))
}

func leading() coordinator.Callbacks {
	return coordinator.Callbacks{
		OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}, OnNewLeader: func(events.Leader) {},
	}
}
