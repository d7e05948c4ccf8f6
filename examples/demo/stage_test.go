package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestX(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		p.ZK.Timeout = 4 * time.Second
		ctx, cancel := context.WithCancel(t.Context())
		s := newStage(inside(p.ZK), []string{"ann", "bob", "cid"})
		done := make(chan error)
		go func() { done <- s.play(ctx) }()
		show := func(x string) {
			synctest.Wait()
			text, _, _ := s.log.encode()
			t.Logf("%s\n%s", x, text)
		}
		time.Sleep(5 * time.Second)
		show("begin")
		if err := s.do(doCutHolder, ""); err != nil {
			t.Error(err)
		}
		time.Sleep(8 * time.Second)
		show("cut")
		s.do(doHealAll, "")
		time.Sleep(8 * time.Second)
		show("healed")
		t.Log(s.do(doPause, "bob"))
		time.Sleep(15 * time.Second)
		show("paused")
		s.do(doWake, "bob")
		time.Sleep(5 * time.Second)
		show("woken")
		t.Log(s.do(doExpire, "cid"))
		time.Sleep(15 * time.Second)
		show("expired")
		cancel()
		t.Log(<-done)
	})
}
