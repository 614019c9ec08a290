package gossip

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/rfsd/rfsd/rfs/fault"
)

// EC2 finds the running instances of an account and region that carry a tag. Credentials come
// from the default chain; ec2:DescribeInstances is all it needs.
type EC2 struct {
	TagKey, TagValue string
	Region           string // "" is the chain's
	Endpoint         string // "" is the region's
	Port             int
}

// String names the tag.
func (e EC2) String() string { return "EC2 instances tagged " + e.TagKey + "=" + e.TagValue }

// parseCloud reads "provider=aws key=value …"; values hold no blanks.
func parseCloud(s string) (Finder, error) {
	e := EC2{Port: DefaultPort}
	for _, word := range strings.Fields(s) {
		key, value, ok := strings.Cut(word, "=")
		if !ok || value == "" {
			return nil, fmt.Errorf("--join %q: %q is not key=value: %w", s, word, fault.ErrConfig)
		}
		switch key {
		case "provider":
			if value != "aws" {
				return nil, fmt.Errorf("--join %q: provider %q is not known, only aws: %w", s, value, fault.ErrConfig)
			}
		case "tag_key":
			e.TagKey = value
		case "tag_value":
			e.TagValue = value
		case "region":
			e.Region = value
		case "endpoint":
			e.Endpoint = value
		case "port":
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("--join %q: port %q: %w", s, value, fault.ErrConfig)
			}
			e.Port = int(n)
		default:
			return nil, fmt.Errorf("--join %q: %q is not known: %w", s, key, fault.ErrConfig)
		}
	}
	if e.TagKey == "" || e.TagValue == "" {
		return nil, fmt.Errorf("--join %q needs tag_key and tag_value: %w", s, fault.ErrConfig)
	}
	return e, nil
}

// Find lists the private addresses of the running instances.
func (e EC2) Find(ctx context.Context) ([]string, error) {
	var opts []func(*config.LoadOptions) error
	if e.Region != "" {
		opts = append(opts, config.WithRegion(e.Region))
	}
	conf, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("AWS configuration: %w: %w", err, fault.ErrConfig)
	}
	client := ec2.NewFromConfig(conf, func(o *ec2.Options) {
		if e.Endpoint != "" {
			o.BaseEndpoint = aws.String(e.Endpoint)
		}
	})
	pages := ec2.NewDescribeInstancesPaginator(client, &ec2.DescribeInstancesInput{Filters: []types.Filter{
		{Name: aws.String("tag:" + e.TagKey), Values: []string{e.TagValue}},
		{Name: aws.String("instance-state-name"), Values: []string{"running"}},
	}})
	var all []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w: %w", e, err, fault.ErrUnavailable)
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				if ip := aws.ToString(i.PrivateIpAddress); ip != "" {
					all = append(all, net.JoinHostPort(ip, strconv.Itoa(e.Port)))
				}
			}
		}
	}
	return all, nil
}
