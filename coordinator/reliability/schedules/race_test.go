//go:build race

package schedules_test

// schedules is how many are played by default.
const schedules = 300
