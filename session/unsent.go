package session

// This file is about requests that wait to be sent, and that nobody wants any more: nothing of them stays. A caller may try for a lock
// again and again while no server can be reached, and give each try up after a moment.
