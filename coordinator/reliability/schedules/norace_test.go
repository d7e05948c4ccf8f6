//go:build !race

package schedules

// How many schedules are played.
const quickSchedules, fullSchedules = 500, 10_000

// frames is how many of a few cycles meet with something, and all of them at full length.
const frames, noSample = 12, true
