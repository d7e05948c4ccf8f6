//go:build !unix

package ensemble

import (
	"errors"
	"os"
)

// holdProcess fails: this system has no signals.
func holdProcess(*os.Process, bool) error { return errors.ErrUnsupported }
