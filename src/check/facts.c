/* What the versions and the class path tell of an application. */
#include "check/facts.h"

/* The first release of each train. X: the train's word in old versions. */
static uint32_t train_of_name(struct rea_slice version)
{
	static const char *const old[] = {
	    "angel", "brixton", "camden", "dalston", "edgware", "finchley", "greenwich", "hoxton"};

	for (uint32_t i = 0; i < sizeof(old) / sizeof(old[0]); i++)
		if (check_contains(version, old[i]))
			return 201200 + i * 100;
	return CHECK_CLOUD_UNKNOWN;
}

/* The numbers of "2021.0.5", of which there are at most three. */
static size_t numbers_of(struct rea_slice version, uint64_t numbers[3])
{
	struct rea_slice word;
	size_t count = 0;

	while (count < 3 && check_word(&version, ".-", &word) && rea_slice_to_u64(word, &numbers[count]) &&
	       numbers[count] < 100000)
		count++;
	return count;
}

bool check_facts_cloud(struct check_facts *facts, const char *text)
{
	struct rea_slice version = rea_slice_of(text);
	uint64_t numbers[3] = {0};

	facts->cloud = train_of_name(version);
	if (facts->cloud != CHECK_CLOUD_UNKNOWN)
		return true;
	if (numbers_of(version, numbers) == 0 || numbers[0] < 2020 || numbers[1] > 99)
		return false;
	facts->cloud = (uint32_t)(numbers[0] * 100 + numbers[1]);
	facts->cloud_service = (uint32_t)numbers[2];
	return true;
}

bool check_facts_boot(struct check_facts *facts, const char *text)
{
	/* Of each release of Boot the train of Cloud that goes with it. */
	static const struct {
		uint32_t boot, cloud;
	} trains[] = {{400, 202501}, {305, 202500}, {304, 202400}, {302, 202300}, {300, 202200}, {206, 202100},
	    {204, 202000}, {0, 201900}};
	uint64_t numbers[3] = {0};
	size_t i = 0;

	if (numbers_of(rea_slice_of(text), numbers) < 2 || numbers[0] < 1 || numbers[0] > 99)
		return false;
	while (numbers[0] * 100 + numbers[1] < trains[i].boot)
		i++;
	facts->cloud = trains[i].cloud;
	return true;
}

/* The train by the version of spring-cloud-openfeign or -commons: 4.0 is 2022.0. */
static void cloud_of_artifact(struct check_facts *facts, struct rea_slice version)
{
	static const struct {
		uint32_t artifact, cloud;
	} trains[] = {{500, 202501}, {403, 202500}, {402, 202400}, {401, 202300}, {400, 202200}, {301, 202100},
	    {300, 202000}, {0, 201900}};
	uint64_t numbers[3] = {0};
	size_t i = 0;

	if (facts->cloud != CHECK_CLOUD_UNKNOWN || numbers_of(version, numbers) < 2)
		return;
	while (numbers[0] * 100 + numbers[1] < trains[i].artifact)
		i++;
	facts->cloud = trains[i].cloud;
	facts->cloud_service = (uint32_t)numbers[2];
}

static bool is_test(struct rea_slice line)
{
	return check_contains(line, ":test");
}

static void read_line(struct check *check, struct rea_slice line)
{
	static const char *const carriers[] = {
	    "spring-kafka", "spring-rabbit", "spring-batch-infrastructure", "spring-integration-core"};
	struct check_facts *facts = &check->facts;
	struct rea_slice rest = line, word = {NULL, 0}, group, artifact, version = {NULL, 0}, part;
	bool tree = check_contains(line, "+- ") || check_contains(line, "\\- ");
	/* In a tree what the project itself names hangs on the root. */
	bool direct =
	    tree && !check_contains(line, "|  ") && !check_contains(line, "   +- ") && !check_contains(line, "   \\- ");

	while (check_word(&rest, " \t|\\+", &word) && memchr(word.data, ':', word.length) == NULL)
		;
	if (word.length == 0 || !check_word(&word, ":", &group) || !check_word(&word, ":", &artifact))
		return;
	/* group:artifact:type[:classifier]:version[:scope] */
	check_word(&word, ":", &part);
	while (check_word(&word, ":", &part))
		if (part.data[0] >= '0' && part.data[0] <= '9')
			version = part;
	for (size_t i = 0; i < sizeof(carriers) / sizeof(carriers[0]); i++)
		if (check_is(artifact, carriers[i]))
			facts->carrier = carriers[i];
	if (check_is(artifact, "spring-retry")) {
		facts->spring_retry = CHECK_YES;
		if (tree)
			facts->spring_retry_direct = direct ? CHECK_YES : CHECK_NO;
	} else if (check_is(artifact, "feign-hc5")) {
		facts->hc5 = CHECK_YES;
	} else if (check_is(artifact, "feign-okhttp")) {
		facts->okhttp = CHECK_YES;
	} else if (check_is(artifact, "spring-cloud-gateway-server") ||
		   check_is(artifact, "spring-cloud-gateway-server-webflux")) {
		facts->reactive = CHECK_YES;
	} else if (check_is(artifact, "spring-cloud-openfeign-core")) {
		facts->openfeign = CHECK_YES;
		cloud_of_artifact(facts, version);
	} else if (check_is(artifact, "spring-cloud-commons")) {
		cloud_of_artifact(facts, version);
	}
}

void check_facts_classpath(struct check *check, struct rea_slice text)
{
	struct check_facts *facts = &check->facts;
	struct rea_slice line;

	facts->classpath = true;
	facts->spring_retry = facts->openfeign = facts->hc5 = facts->okhttp = facts->reactive = CHECK_NO;
	while (check_word(&text, "\r\n", &line))
		if (!is_test(line))
			read_line(check, line);
	/* A flat list does not say who brought it, but these do. */
	if (facts->spring_retry == CHECK_YES && facts->spring_retry_direct == CHECK_UNKNOWN && facts->carrier != NULL)
		facts->spring_retry_direct = CHECK_NO;
}
