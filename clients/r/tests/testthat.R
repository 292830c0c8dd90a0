library(testthat)
library(fedreg)

test_check("fedreg")
