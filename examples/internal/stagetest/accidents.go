package stagetest

import (
	"time"

	"github.com/zkgrant/zkgrant/session/zktest"
)

// Accidents has the server leave a session without an answer for every other while of the length given, until the
// program has ended, and returns what that says.
func Accidents(server *zktest.Server, while time.Duration, ended <-chan error) error {
	ticker := time.NewTicker(while)
	defer ticker.Stop()
	var muted int64
	for {
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
		}
		if muted != 0 {
			server.Mute(muted, false)
			muted = 0
		} else if sessions := server.Sessions(); len(sessions) > 0 {
			muted = sessions[0]
			server.Mute(muted, true)
		}
	}
}
