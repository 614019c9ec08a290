package main

// maxrssUnit is the unit of ru_maxrss in bytes: getrusage(2) on Linux counts kilobytes.
const maxrssUnit = 1024
