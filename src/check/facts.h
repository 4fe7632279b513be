/* What the versions and the class path tell of an application. */
#ifndef REA_SRC_CHECK_FACTS_H
#define REA_SRC_CHECK_FACTS_H

#include "check/model.h"

/* "2022.0.3", "Hoxton.SR12". False = is no version. */
bool check_facts_cloud(struct check_facts *facts, const char *text);
/* "3.2.1": the train of Spring Cloud that goes with it. */
bool check_facts_boot(struct check_facts *facts, const char *text);
/* The output of `mvn dependency:list` or `dependency:tree`; what has the scope test is left out. */
void check_facts_classpath(struct check *check, struct rea_slice text);

#endif
