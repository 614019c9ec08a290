package main

import (
	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/rfs/target"
)

// sigV4Flags say how requests to a cluster in AWS are signed.
func sigV4Flags(category, which string) []cli.Flag {
	return []cli.Flag{
		yes(category, which+"-aws-sigv4", "sign requests with AWS Signature Version 4, with the credentials of the default chain"),
		str(category, which+"-aws-region", "", "region of the domain (default: from its host name, else AWS_REGION)"),
		str(category, which+"-aws-service", "", "AWS service of the signature: es, that of domains (the default); serverless collections are not supported"),
		str(category, which+"-aws-role-arn", "", "role to assume for the requests"),
	}
}

// sigV4 reads these flags; nil when requests are not to be signed.
func sigV4(c *cli.Context, which string) (*target.SigV4, error) {
	s := target.SigV4{Region: c.String(which + "-aws-region"), Service: c.String(which + "-aws-service"), RoleARN: c.String(which + "-aws-role-arn")}
	switch {
	case c.Bool(which + "-aws-sigv4"):
		return &s, nil
	case s != target.SigV4{}:
		return nil, usage("--%s-aws-… need --%s-aws-sigv4", which, which)
	}
	return nil, nil
}
