package scale

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/rfsd/rfsd/rfs/base/awsquery"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

// AutoScaling sets the desired capacity of an AWS Auto Scaling group. It needs the permissions
// autoscaling:DescribeAutoScalingGroups and autoscaling:SetDesiredCapacity.
type AutoScaling struct {
	Group    string
	Region   string // "" is the default chain's
	Endpoint string // "" is the region's
}

// group has the fields of a group's description that are read. Source: Auto Scaling API Reference, version 2011-01-01.
type group struct {
	Name      string   `xml:"AutoScalingGroupName"`
	Desired   int      `xml:"DesiredCapacity"`
	Min       int      `xml:"MinSize"`
	Max       int      `xml:"MaxSize"`
	Status    string   `xml:"Status"` // set while the group is being deleted
	Instances []string `xml:"Instances>member>LifecycleState"`
}

// Apply sets the desired capacity to n unless it is n already, and returns the number of instances that are not terminated yet. For a
// number outside the group's own limits it sets the nearest limit and returns an error.
func (a AutoScaling) Apply(ctx context.Context, n int) (running int, err error) {
	session, err := awsquery.Client{Service: "autoscaling", Version: "2011-01-01", Region: a.Region, RegionSetting: "--scale-region", Endpoint: a.Endpoint}.Open(ctx)
	if err != nil {
		return 0, fmt.Errorf("Auto Scaling group %s: %w", a.Group, err)
	}
	var answer struct {
		Groups []group `xml:"DescribeAutoScalingGroupsResult>AutoScalingGroups>member"`
	}
	if err := session.Call(ctx, "DescribeAutoScalingGroups", url.Values{"AutoScalingGroupNames.member.1": {a.Group}}, &answer); err != nil {
		return 0, a.failed("describe", err)
	}
	if len(answer.Groups) != 1 || answer.Groups[0].Name != a.Group {
		return 0, fmt.Errorf("Auto Scaling group %s does not exist in the region of this account: correct --scale-group or --scale-region: %w", a.Group, fault.ErrConfig)
	}
	g := answer.Groups[0]
	running = len(g.Instances)
	if g.Status != "" {
		return running, fmt.Errorf("Auto Scaling group %s: %s: %w", a.Group, g.Status, fault.ErrConfig)
	}
	to := min(max(n, g.Min), g.Max)
	if g.Desired != to {
		form := url.Values{"AutoScalingGroupName": {a.Group}, "DesiredCapacity": {strconv.Itoa(to)}, "HonorCooldown": {"false"}}
		if err := session.Call(ctx, "SetDesiredCapacity", form, &struct{}{}); err != nil {
			return running, a.failed(fmt.Sprintf("set the desired capacity to %d", to), err)
		}
	}
	if to != n {
		return running, fmt.Errorf("%d machines are wanted, but the Auto Scaling group %s allows %d to %d: change its limits, or --scale-min and --scale-max: %w", n, a.Group, g.Min, g.Max, fault.ErrConfig)
	}
	return running, nil
}

// failed returns the error of a request. The user has to fix the cause of a refusal, unless the service was too busy.
func (a AutoScaling) failed(what string, err error) error {
	category := fault.ErrUnavailable
	if refused := (*awsquery.Refused)(nil); errors.As(err, &refused) && !refused.Temporary() {
		category = fault.ErrConfig
	}
	return fmt.Errorf("Auto Scaling group %s: %s: %w: %w", a.Group, what, err, category)
}
