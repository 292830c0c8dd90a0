# tidy, glance and augment beside those of package broom for a glm.

test_that("tidy, glance and augment have broom's columns and numbers", {
    need_programs()
    skip_if_not_installed("broom")
    d <- people()
    fit <- fed_glm(ill ~ age + smoker + crp + bmi, d, alice = c("age", "smoker"), family = binomial)
    glm <- tight(ill ~ age + smoker + crp + bmi, data = d, family = binomial)
    ours <- tidy(fit)
    theirs <- as.data.frame(broom::tidy(glm))
    expect_equal(names(ours), c(names(theirs), "party"))
    expect_equal(ours$term, theirs$term)
    expect_lt(largest(as.matrix(ours[2:5]), as.matrix(theirs[2:5])), 1e-8)

    theirs <- as.data.frame(broom::glance(glm))
    expect_equal(names(glance(fit)), names(theirs))
    expect_lt(largest(as.matrix(glance(fit)), as.matrix(theirs)), 1e-8)

    theirs <- as.data.frame(broom::augment(glm))
    ours <- augment(fit)
    expect_equal(names(ours), c("ill", "age", "smoker", "crp", "bmi", ".fitted", ".resid"))
    expect_equal(ours, theirs[names(ours)], tolerance = 1e-8, ignore_attr = TRUE)
    for (kind in c("deviance", "pearson")) {
        theirs <- broom::augment(glm, type.predict = "response", type.residuals = kind)
        ours <- augment(fit, type.predict = "response", type.residuals = kind)
        expect_equal(ours[c(".fitted", ".resid")], as.data.frame(theirs)[c(".fitted", ".resid")], tolerance = 1e-8, ignore_attr = TRUE)
    }
    theirs <- broom::augment(glm, newdata = d[5:9, -11])
    expect_equal(augment(fit, newdata = d[5:9, -11])$.fitted, unname(theirs$.fitted), tolerance = 1e-8)
    expect_null(augment(fit, newdata = d[5:9, -11])$.resid)
})

test_that("exponentiated estimates are those of broom, with Wald intervals", {
    need_programs()
    skip_if_not_installed("broom")
    d <- people()
    fit <- fed_glm(stays ~ age + bmi, d, alice = "age", family = poisson)
    glm <- tight(stays ~ age + bmi, data = d, family = poisson)
    ours <- tidy(fit, conf.int = TRUE, conf.level = 0.9, exponentiate = TRUE)
    theirs <- as.data.frame(broom::tidy(glm, exponentiate = TRUE))
    expect_lt(largest(as.matrix(ours[2:5]), as.matrix(theirs[2:5])), 1e-8)
    expect_lt(largest(as.matrix(ours[c("conf.low", "conf.high")]), exp(confint.default(glm, level = 0.9))), 1e-8)
})

test_that("names of rows become a column, as in broom", {
    need_programs()
    ours <- augment(fed_glm(mpg ~ wt + hp, mtcars, alice = "wt"))
    expect_equal(ours$.rownames, rownames(mtcars))
    expect_equal(residuals(glm(mpg ~ wt + hp, data = mtcars)), stats::setNames(ours$.resid, ours$.rownames), tolerance = 1e-8)
})

test_that("residuals of weighted fits are those of glm", {
    need_programs()
    d <- people()
    fit <- fed_glm(stays ~ age + bmi, d, alice = "age", family = poisson, weights = visits)
    glm <- tight(stays ~ age + bmi, data = d, family = poisson, weights = visits)
    for (kind in c("deviance", "pearson", "response")) {
        expect_lt(largest(residuals(fit, type = kind), residuals(glm, type = kind)), 1e-8)
    }
    expect_lt(largest(fitted(fit), fitted(glm)), 1e-8)
    expect_lt(largest(augment(fit)$.resid, residuals(glm)), 1e-8)
})

test_that("rows that are given are weighed as in the fit", {
    need_programs()
    d <- people()
    fit <- fed_glm(stays ~ age + bmi, d, alice = "age", family = poisson, weights = visits)
    glm <- tight(stays ~ age + bmi, data = d, family = poisson, weights = visits)
    expect_lt(largest(augment(fit, data = d)$.resid, residuals(glm)), 1e-8)
    expect_lt(largest(augment(fit, data = d[5:9, ])$.resid, residuals(glm)[5:9]), 1e-8)
    expect_lt(largest(augment(fit, newdata = d[5:9, ])$.resid, residuals(glm)[5:9]), 1e-8)
    without <- d[setdiff(names(d), "visits")]
    expect_error(augment(fit, data = without), "the fit has the weights `visits`, which `data` does not give", fixed = TRUE)
    expect_null(augment(fit, newdata = without)$.resid)
    expect_equal(weights(fit), weights(glm), ignore_attr = TRUE)
    given <- d$visits
    fit <- fed_glm(stays ~ age + bmi, d, alice = "age", family = poisson, weights = given / 2)
    expect_lt(largest(augment(fit, data = d)$.resid, residuals(glm) / sqrt(2)), 1e-8)
    expect_error(augment(fit, data = d[1:5, ]), "the fit has the weights `given/2`", fixed = TRUE)
    expect_equal(weights(fed_glm(cost ~ age + bmi, d, alice = "age")), rep(1, 300))
    expect_error(weights(shared()), "a report does not hold")
})

test_that("the outcome of new rows is coded by the levels of the fit", {
    need_programs()
    d <- people()
    d$state <- factor(ifelse(d$ill == 1, "ill", "well"), levels = c("well", "ill"))
    folder <- tempfile("kept-")
    fit <- fed_glm(state ~ age + bmi, d, alice = "age", family = binomial)
    glm <- tight(state ~ age + bmi, data = d, family = binomial)
    rows <- d[d$ill == 1, ][1:3, ]
    expected <- residuals(glm)[rownames(rows)]
    for (new in list(rows, droplevels(rows), transform(rows, state = as.character(state)))) {
        expect_lt(largest(augment(fit, newdata = new)$.resid, expected), 1e-7)
        expect_lt(largest(augment(fit, data = new)$.resid, expected), 1e-7)
    }
    expect_error(augment(fit, newdata = transform(rows, state = "dead")), "`state` has the level \"dead\", which no row of the fit had", fixed = TRUE)
    # Text, of which the programs take the levels in the order of bytes: `well` is 1. A report says so in a note.
    d$state <- as.character(d$state)
    fit <- fed_glm(state ~ age + bmi, d, alice = "age", family = binomial, out = folder)
    expect_lt(largest(augment(fit, newdata = d[rownames(rows), ])$.resid, -expected), 1e-7)
    expect_lt(largest(augment(read_fedreg(folder), newdata = droplevels(rows))$.resid, -expected), 1e-7)
})

test_that("rows of a study can be given to a report", {
    rows <- data.frame(age = c(40, 70), female = c(TRUE, FALSE), bmi = 25, region = "east", stay_days = 3, readmitted = c(0, 1))
    given <- augment(shared(), data = rows)
    expect_equal(given$.fitted, unname(predict(shared(), rows)))
    expect_equal(sign(given$.resid), c(-1, 1))
    expect_null(augment(shared(), newdata = rows[-6])$.resid)
})
