package coordinator_test

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestTheLogIsLimitedAboveDebug(t *testing.T) {
	const locks = 500
	for _, level := range []zapcore.Level{zapcore.DebugLevel, zapcore.InfoLevel, zapcore.ErrorLevel} {
		t.Run(level.String(), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				core, logs := observer.New(level)
				c := coordtest.Connect(t, srv, coordinator.WithLogger(zap.New(core)))
				for i := range locks {
					coordtest.Hold(t, c.Mutex(fmt.Sprintf("/locks/%d", i)))
				}
				if err := srv.Expire(c.SessionID()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				lost, steps := logs.FilterMessage("lock lost").Len(), logs.FilterMessage("step").Len()
				expired := logs.FilterMessage("session expired").Len()
				switch level {
				case zapcore.DebugLevel:
					if lost != 10 || expired != 1 || steps < 5*locks {
						t.Errorf("%d losses, %d expiries, %d steps", lost, expired, steps)
					}
				case zapcore.InfoLevel:
					if lost != 10 || expired != 1 || steps != 0 {
						t.Errorf("%d losses, %d expiries, %d steps", lost, expired, steps)
					}
				default:
					if logs.Len() != 0 {
						t.Errorf("%d lines, the first %+v", logs.Len(), logs.All()[0])
					}
				}
			})
		})
	}
}
