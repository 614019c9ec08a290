package config

import "time"

// Scaling configures how the leader of a fleet starts and terminates machines.
type Scaling struct {
	_              struct{}      `group:"Fleet: number of machines" section:"scaling"`
	Driver         string        `flag:"scale-driver" oneof:"exec,aws," want:"exec or aws" help:"what starts and ends machines: exec runs --scale-command, aws sets the desired capacity of --scale-group; one of the nodes that have it drives (default: nothing)"`
	Command        []string      `flag:"scale-command" help:"run this program with the wanted number of machines as its last argument; further entries are arguments before it; its last line of output may be the number that run"`
	Group          string        `flag:"scale-group" help:"name of an AWS Auto Scaling group"`
	Region         string        `flag:"scale-region" help:"region of the group (default: from the AWS default chain)"`
	Endpoint       string        `flag:"scale-endpoint" check:"url" help:"URL of the Auto Scaling service (default: the service's URL in the region)"`
	Min            int           `flag:"scale-min" default:"0" min:"0" max:"10000" help:"machines while there is work; at least one runs then"`
	Max            int           `flag:"scale-max" default:"0" min:"0" max:"10000" help:"maximum number of machines; required"`
	MachineWorkers int           `flag:"scale-machine-workers" default:"1" min:"1" max:"256" help:"workers of one machine"`
	WorkerBytes    Size          `flag:"scale-worker-bytes" default:"10GB" want:"a size such as 10GB, or 0" help:"one worker is wanted for so much of the repository that is left, at most one for each open item (0: one for each)"`
	Cooldown       time.Duration `flag:"scale-cooldown" default:"5m" min:"0s" max:"24h" help:"least time between two changes while there is work"`
	Budget         int           `flag:"scale-budget-hours" default:"0" min:"0" max:"10000000" help:"instance hours in all, after which no machine runs (0: no limit)"`
	KeepMin        bool          `flag:"scale-keep-min" help:"keep --scale-min machines when the work is complete, rather than none"`
}

// Check rejects a driver without its required settings, and settings of another driver.
func (s *Scaling) Check() error {
	switch {
	case s.Driver != "aws" && (s.Region != "" || s.Endpoint != ""):
		return Usage("--scale-region and --scale-endpoint need --scale-driver aws")
	case s.Driver == "" && (len(s.Command) > 0 || s.Group != "" || s.Max > 0):
		return Usage("--scale-command, --scale-group and --scale-max need --scale-driver: exec or aws")
	case s.Driver == "":
		return nil
	case (s.Driver == "exec") != (len(s.Command) > 0 && s.Command[0] != ""):
		return Usage("--scale-driver exec and --scale-command belong together")
	case (s.Driver == "aws") != (s.Group != ""):
		return Usage("--scale-driver aws and --scale-group belong together")
	case s.Max < 1:
		return Usage("--scale-max is missing: how many machines may run at most?")
	case s.Min > s.Max:
		return Usage("--scale-min %d is more than --scale-max %d", s.Min, s.Max)
	}
	return nil
}
