// A study over HTTP with the generated client: created, asked, told late, twice and in parts, completed, recommended.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"shop/causalbandits"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(holds bool, found any) {
	if !holds {
		text, _ := json.Marshal(found)
		panic(string(text))
	}
}

// problemOf returns the problem details of an error.
func problemOf(err error) causalbandits.ProblemDetails {
	details, ok := err.(*causalbandits.GenericOpenAPIError).Model().(causalbandits.ProblemDetails)
	expect(ok, err.Error())
	return details
}

func main() {
	configuration := causalbandits.NewConfiguration()
	configuration.Servers[0].URL = os.Getenv("SERVICE")
	studies := causalbandits.NewAPIClient(configuration).StudiesAPI
	ctx := context.Background()

	var specification causalbandits.ProblemSpecification
	text, err := os.ReadFile("shop.json")
	must(err)
	must(json.Unmarshal(text, &specification))
	created, _, err := studies.Create(ctx).
		CreateStudyRequest(*causalbandits.NewCreateStudyRequest("shop", specification)).Execute()
	must(err)
	expect(created.Policy == "c-ts(cpts=learned)", created)

	request := causalbandits.NewAskRequest()
	request.SetKey("a")
	asked, _, err := studies.Ask(ctx, "shop").AskRequest(*request).Execute()
	must(err)
	banner := *asked.DecisionResponse.Action["banner"].String
	expect(banner == "plain" || banner == "loud", asked)
	request = causalbandits.NewAskRequest()
	request.SetN(3)
	several, _, err := studies.Ask(ctx, "shop").AskRequest(*request).Execute()
	must(err)
	expect(len(several.DecisionsResponse.Items) == 3, several)

	key, yes, sale := "a", "yes", 1.0
	observed := map[string]causalbandits.ObservedValue{"viewed": {String: &yes}}
	tell := func(reward *float64, values map[string]causalbandits.ObservedValue) causalbandits.OutcomeResponse {
		id := causalbandits.OutcomeItemId{String: &key}
		item := causalbandits.NewOutcomeItem(id, *causalbandits.NewNullableFloat64(reward))
		item.Observed = values
		body := *causalbandits.NewTellRequest([]causalbandits.OutcomeItem{*item})
		receipts, _, err := studies.Tell(ctx, "shop").TellRequest(body).Execute()
		must(err)
		return receipts.Items[0]
	}
	receipt := tell(&sale, nil)
	expect(receipt.Status == "incomplete" && receipt.Missing[0] == "viewed", receipt)
	report, _, err := studies.Report(ctx, "shop").Execute()
	must(err)
	expect(report.Incomplete.N == 1, report)
	receipt = tell(nil, observed)
	expect(receipt.Status == "applied", receipt)
	receipt = tell(&sale, observed)
	expect(receipt.Status == "duplicate", receipt)

	recommendation, _, err := studies.Recommend(ctx, "shop").
		RecommendRequest(*causalbandits.NewRecommendRequest()).Execute()
	must(err)
	expect(recommendation.Stop.Get() == nil && recommendation.StopReason != "", recommendation)

	_, _, err = studies.Report(ctx, "none").Execute()
	expect(problemOf(err).Type == "/problems/unknown-study", err.Error())
	huge := "huge"
	request = causalbandits.NewAskRequest()
	request.Eligible = []map[string]causalbandits.Value{{"banner": {String: &huge}}}
	_, _, err = studies.Ask(ctx, "shop").AskRequest(*request).Execute()
	problem := problemOf(err)
	expect(*problem.Errors[0].Field.Get() == "/eligible/0/banner", problem)
	fmt.Println("done")
}
