//go:build race

package schedules_test

// schedules is how many are played by default.
const schedules = 300

// frames is how many of a few cycles meet with something.
const frames = 4
