package figures

import (
	"encoding/json"
	"fmt"
	"os"
)

// Store writes results. The files of two runs differ only in the measurements.
func Store(file string, r any) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// Load reads a file written by Store into r. The error wraps [fs.ErrNotExist] if there is
// no file.
func Load(file string, r any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the results: %w", err)
	}
	if err := json.Unmarshal(text, r); err != nil {
		return fmt.Errorf("reading the results in %s: %w", file, err)
	}
	return nil
}
