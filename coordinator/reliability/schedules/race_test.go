//go:build race

package schedules

// How many schedules are played: the race detector makes them slow.
const quickSchedules, fullSchedules = 100, 300

// frames is how many frames of a few cycles meet with a mishap. At full length all of them do. Under the race detector it is a
// sample.
const frames, noSample = 4, false
