# Fits of the programs against R's glm on the pooled table.

expect_fit_of_glm <- function(fit, glm, tolerance = 1e-8) {
    names <- gsub("`", "", names(coef(glm)))
    expect_setequal(names(coef(fit)), names)
    at <- match(names, names(coef(fit)))
    table <- coef(summary(glm))
    expect_lt(largest(coef(fit)[at], coef(glm)), tolerance)
    expect_lt(largest(coef(summary(fit))[at, ], table), tolerance)
    expect_lt(largest(deviance(fit), deviance(glm)), tolerance)
    expect_lt(largest(fit$null.deviance, glm$null.deviance), tolerance)
    expect_lt(largest(AIC(fit), AIC(glm)), tolerance)
    expect_lt(largest(BIC(fit), BIC(glm)), tolerance)
    expect_equal(attributes(logLik(fit))[c("df", "nobs")], attributes(logLik(glm))[c("df", "nobs")])
    expect_equal(df.residual(fit), df.residual(glm))
    expect_equal(nobs(fit), nobs(glm))
    covariance <- vcov(fit)[at, at]
    known <- !is.na(covariance)
    expect_true(all(diag(known)))
    expect_lt(largest(covariance[known], vcov(glm)[known]), tolerance)
}

test_that("a gaussian fit is that of glm", {
    need_programs()
    d <- people()
    fit <- fed_glm(cost ~ age + crp + ward + bmi + smoker, d, alice = c("age", "crp"), bob = c("ward", "bmi", "smoker"))
    expect_fit_of_glm(fit, tight(cost ~ age + crp + ward + bmi + smoker, data = d))
    expect_equal(confint(fit), confint(lm(cost ~ age + crp + ward + bmi + smoker, d)), tolerance = 1e-8)
    expect_equal(confint(fit, level = 0.8), confint(lm(cost ~ age + crp + ward + bmi + smoker, d), level = 0.8), tolerance = 1e-8)
})

test_that("a binomial fit is that of glm, with Wald intervals of any level", {
    need_programs()
    d <- people()
    fit <- fed_glm(ill ~ age + log(crp) + bmi, d, alice = "age", bob = c("crp", "bmi"), family = binomial)
    glm <- tight(ill ~ age + log(crp) + bmi, data = d, family = binomial)
    expect_fit_of_glm(fit, glm)
    expect_equal(confint(fit), confint.default(glm), tolerance = 1e-8)
    expect_equal(confint(fit, "bmi", level = 0.9), confint.default(glm, "bmi", level = 0.9), tolerance = 1e-8)
})

test_that("a poisson fit with an offset and weights is that of glm", {
    need_programs()
    d <- people()
    fit <- fed_glm(stays ~ age + bmi + offset(log(years)), d, alice = "age", family = poisson, weights = visits)
    glm <- tight(stays ~ age + bmi + offset(log(years)), data = d, family = poisson, weights = visits)
    expect_fit_of_glm(fit, glm)
    again <- fed_glm(stays ~ age + bmi, d, alice = "age", family = "poisson", weights = "visits", offset = log(years))
    expect_equal(coef(again), coef(fit), tolerance = 1e-12)
    expect_lt(largest(predict(fit), predict(glm)), 1e-8)
})

test_that("a fit without an intercept is that of glm, with all levels of the first factor", {
    need_programs()
    d <- people()
    glm <- tight(cost ~ 0 + ward + age + crp + smoker, data = d)
    for (mode in c("plain", "sealed")) {
        limits <- if (mode == "sealed") "off"
        fit <- fed_glm(cost ~ 0 + ward + age + crp + smoker, d, alice = c("ward", "age"), mode = mode, sealed_limits = limits)
        expect_fit_of_glm(fit, glm)
        expect_lt(largest(predict(fit, d[1:5, ]), predict(glm, d[1:5, ])), 1e-8)
    }
    # The leader is the first by name, whatever the order of the list; main effects come before interactions.
    led <- fed_glm(cost ~ 0 + smoker:crp + ward + smoker, d, parties = list(zoo = c("smoker", "crp"), clinic = c("ward", "age")))
    glm <- tight(cost ~ 0 + ward + smoker + smoker:crp, data = d)
    expect_lt(largest(predict(led, d[1:5, ]), predict(glm, d[1:5, ])), 1e-8)
    folder <- tempfile("kept-")
    truth <- fed_glm(cost ~ 0 + smoker + age + crp, d, alice = c("smoker", "age"), out = folder)
    expect_fit_of_glm(truth, tight(cost ~ 0 + smoker + age + crp, data = d))
    expect_lt(largest(predict(read_fedreg(folder), d[1:5, ]), predict(truth, d[1:5, ])), 1e-8)
    numbers <- fed_glm(cost ~ age + crp - 1, d, parties = list(zoo = "age", ward = "crp"))
    expect_fit_of_glm(numbers, tight(cost ~ age + crp - 1, data = d))
})

test_that("a sealed fit is that of glm", {
    need_programs()
    d <- people()
    fit <- fed_glm(cost ~ age + crp + ward + bmi, d, alice = c("age", "crp"), mode = "sealed")
    expect_fit_of_glm(fit, tight(cost ~ age + crp + ward + bmi, data = d))
    expect_true(all(is.na(vcov(fit)[c("age", "crp"), c("bmi", "wardwest")])))
})

test_that("formulas with functions and interactions have the names and numbers of glm", {
    need_programs()
    d <- people()
    formula <- cost ~ poly(age, 2) * sex + log(crp + 1) + splines::ns(bmi, df = 3) + cut(years, c(0, 1, 2, 3)) + I(visits^2)
    fit <- fed_glm(formula, d, alice = c("age", "sex", "crp"))
    bare <- cost ~ poly(age, 2) * sex + log(crp + 1) + ns(bmi, df = 3) + cut(years, c(0, 1, 2, 3)) + I(visits^2)
    environment(bare) <- list2env(list(ns = splines::ns), parent = globalenv())
    glm <- tight(bare, data = d)
    expect_fit_of_glm(fit, glm)
    expect_lt(largest(predict(fit), predict(glm)), 1e-8)
    expect_lt(largest(predict(fit, d[c(5, 9, 40), ]), predict(glm, d[c(5, 9, 40), ])), 1e-8)
})

test_that("classes without an end are predicted, which R names with a blank", {
    need_programs()
    d <- people()
    fit <- fed_glm(cost ~ cut(bmi, c(-Inf, 26, Inf)) + age, d, alice = "age")
    glm <- tight(cost ~ cut(bmi, c(-Inf, 26, Inf)) + age, data = d)
    expect_lt(largest(predict(fit), predict(glm)), 1e-8)
    expect_lt(largest(predict(fit, d[3:5, ]), predict(glm, d[3:5, ])), 1e-8)
})

test_that("factors keep the order of their levels, also where levels look like numbers", {
    need_programs()
    d <- people()
    fit <- fed_glm(ill ~ ward * bmi + grade + factor(visits) + smoker, d, alice = c("ward", "bmi"), family = binomial)
    glm <- tight(ill ~ ward * bmi + grade + factor(visits) + smoker, data = d, family = binomial)
    expect_fit_of_glm(fit, glm)
    expect_true(all(c("wardeast", "wardwest", "grade2", "factor(visits)2", "smokerTRUE", "wardwest:bmi") %in% names(coef(fit))))
    expect_lt(largest(predict(fit, d[1:4, ], type = "response"), predict(glm, d[1:4, ], type = "response")), 1e-8)
    expect_error(predict(fit, transform(d[1:2, ], ward = "south")), "has the level \"south\"", fixed = TRUE)
    expect_error(predict(fit, d[1:2, setdiff(names(d), "bmi")]), "lacks the column `bmi`", fixed = TRUE)
    expect_error(predict(fit, transform(d[1:2, ], bmi = "heavy")), "is character, and was numeric in the fit", fixed = TRUE)
    names(d)[names(d) == "ward"] <- "the ward"
    odd <- fed_glm(ill ~ `the ward` + log(bmi), d, alice = "the ward", family = binomial)
    glm <- tight(ill ~ `the ward` + log(bmi), data = d, family = binomial)
    expect_fit_of_glm(odd, glm)
    expect_lt(largest(predict(odd), predict(glm)), 1e-8)
})

test_that("names that are no words reach the programs as they are", {
    need_programs()
    d <- people()[c("cost", "age", "bmi", "crp", "years")]
    names(d) <- c("the cost", "a:b", "x,y", "~t", "it's \"q\"")
    formula <- `the cost` ~ `a:b` + log(`x,y`) + `~t` + `it's "q"`
    fit <- fed_glm(formula, d, alice = c("a:b", "~t"))
    glm <- tight(formula, data = d)
    expect_lt(largest(coef(fit)[c(1, 2, 4, 3, 5)], coef(glm)), 1e-8)
    expect_lt(largest(predict(fit), predict(glm)), 1e-8)
})

test_that("an outcome may be an expression, a factor or a truth value", {
    need_programs()
    d <- people()
    expect_fit_of_glm(fed_glm(log(cost) ~ age + bmi, d, alice = "age"), tight(log(cost) ~ age + bmi, data = d))
    d$state <- factor(ifelse(d$ill == 1, "ill", "well"), levels = c("well", "ill"))
    by_factor <- fed_glm(state ~ age + bmi, d, alice = "age", family = binomial)
    by_truth <- fed_glm(ill == 1 ~ age + bmi, d, alice = "age", family = binomial)
    expect_fit_of_glm(by_factor, tight(state ~ age + bmi, data = d, family = binomial))
    expect_equal(coef(by_truth), coef(by_factor), tolerance = 1e-12)
})

test_that("incomplete rows end the run, and are left out on request as by glm", {
    need_programs()
    d <- people()
    d$age[c(3, 8)] <- NA
    d$bmi[20] <- NaN
    condition <- expect_error(fed_glm(cost ~ poly(age, 2) + bmi, d, alice = "age"), class = "fedreg_error")
    expect_equal(condition$exit_code, 65L)
    expect_match(conditionMessage(condition), "`age` has 2 missing values")
    expect_match(conditionMessage(condition), "missing = \"complete-cases\"", fixed = TRUE)
    fit <- fed_glm(cost ~ log(age) + bmi, d, alice = "age", missing = "complete-cases")
    glm <- tight(cost ~ log(age) + bmi, data = d)
    expect_fit_of_glm(fit, glm)
    expect_output(print(fit), "3 observations deleted due to missingness")
    expect_equal(names(predict(fit)), names(predict(glm)))
    expect_equal(is.na(predict(fit, d)), is.na(predict(glm, d)))
})

test_that("three parties have the fit of glm", {
    need_programs()
    d <- people()
    fit <- fed_glm(cost ~ age + log(crp) + ward + bmi, d, parties = list(clinic = "age", lab = "crp", registry = c("ward", "bmi")))
    expect_fit_of_glm(fit, tight(cost ~ age + log(crp) + ward + bmi, data = d))
    expect_equal(unique(tidy(fit)$party), c("clinic", "lab", "registry"))
})

test_that("a sealed fit of three parties is that of glm", {
    need_programs()
    d <- people()
    parties <- list(clinic = "age", lab = "crp", registry = c("ward", "bmi"))
    fit <- fed_glm(cost ~ age + log(crp) + ward + bmi, d, parties = parties, mode = "sealed", sealed_limits = "off")
    expect_fit_of_glm(fit, tight(cost ~ age + log(crp) + ward + bmi, data = d))
    expect_output(print(summary(fit)), "registry: .* opened to clinic")
})

test_that("a private fit of three parties has the budget of each", {
    need_programs()
    d <- people()
    bounds <- list(age = c(20, 80), crp = c(0, 10), bmi = c(10, 45), cost = c(0, 20))
    fit <- fed_glm(
        cost ~ age + crp + bmi, d, parties = list(clinic = "age", lab = "crp", registry = "bmi"), mode = "private", epsilon = 3, bounds = bounds
    )
    expect_false(anyNA(tidy(fit)$std.error))
    for (name in c("clinic", "lab", "registry")) {
        expect_output(print(summary(fit)), paste0(name, ": epsilon 3 at delta 1e-06"), fixed = TRUE)
    }
})

test_that("quasi-likelihood has the dispersion and the t statistics of glm, and no likelihood", {
    need_programs()
    d <- people()
    for (family in c("quasibinomial", "quasipoisson")) {
        formula <- if (family == "quasibinomial") ill ~ age + log(crp) + bmi else stays ~ age + log(crp) + bmi
        glm <- tight(formula, data = d, family = family)
        fit <- fed_glm(formula, d, alice = "age", family = family)
        expect_lt(largest(coef(summary(fit)), coef(summary(glm))), 1e-8)
        expect_equal(colnames(coef(summary(fit))), colnames(coef(summary(glm))))
        expect_lt(largest(fit$dispersion, summary(glm)$dispersion), 1e-8)
        expect_lt(largest(deviance(fit), deviance(glm)), 1e-8)
        expect_equal(c(logLik(fit), AIC(fit), BIC(fit), glance(fit)$AIC), rep(NA_real_, 4))
        ends <- coef(summary(glm))[, 1] + coef(summary(glm))[, 2] %o% qt(c(0.05, 0.95), df.residual(glm))
        expect_lt(largest(confint(fit, level = 0.9), ends), 1e-8)
        expect_lt(largest(tidy(fit, exponentiate = TRUE)$estimate, exp(coef(glm))), 1e-8)
        expect_equal(family(fit)$family, family)
        expect_lt(largest(predict(fit, type = "response"), fitted(glm)), 1e-8)
        expect_lt(largest(residuals(fit), residuals(glm)), 1e-7)
        expect_output(print(summary(fit)), paste0("Dispersion parameter for ", family, " family taken to be [0-9.]+"))
        expect_output(print(fit), "AIC: NA")
        refused <- expect_error(fed_glm(formula, d, alice = "age", family = family, mode = "sealed"), class = "fedreg_error")
        expect_equal(refused$exit_code, 2L)
        expect_match(refused$sentence, "its dispersion needs the residual of every row")
    }
})

test_that("families of quasi-likelihood are given as in glm, and their outcome may be a factor or truth values", {
    need_programs()
    d <- people()
    # In the order of bytes the first level would be the other one.
    d$state <- factor(ifelse(d$ill == 1, "ill", "well"), levels = c("well", "ill"))
    d$truth <- d$ill == 1
    glm <- tight(ill ~ age + bmi, data = d, family = quasibinomial)
    for (given in list("quasibinomial", quasibinomial, quasibinomial(), quasibinomial(link = "logit"))) {
        fit <- fed_glm(ill ~ age + bmi, d, alice = "age", family = given)
        expect_equal(family(fit), quasibinomial(), ignore_function_env = TRUE)
        expect_lt(largest(coef(summary(fit)), coef(summary(glm))), 1e-8)
    }
    for (formula in list(state ~ age + bmi, truth ~ age + bmi)) {
        fit <- fed_glm(formula, d, alice = "age", family = quasibinomial)
        expect_lt(largest(coef(summary(fit)), coef(summary(glm))), 1e-8)
        expect_lt(largest(residuals(fit), residuals(glm)), 1e-7)
    }
    fit <- fed_glm(stays ~ age + bmi, d, alice = "age", family = quasipoisson(), weights = visits, offset = log(years))
    glm <- tight(stays ~ age + bmi + offset(log(years)), data = d, family = quasipoisson, weights = visits)
    expect_lt(largest(coef(summary(fit)), coef(summary(glm))), 1e-8)
    several <- fed_glm(stays ~ age + bmi + crp, d, parties = list(clinic = "age", lab = "crp", ward = "bmi"), family = quasipoisson)
    glm <- tight(stays ~ age + bmi + crp, data = d, family = quasipoisson)
    at <- rownames(coef(summary(several)))
    expect_lt(largest(coef(summary(several)), coef(summary(glm))[at, ]), 1e-8)
})

test_that("a sub-model of a sealed fit is that of glm without the columns", {
    need_programs()
    d <- people()
    condition <- expect_error(fed_glm(cost ~ age + ward, d[1:60, ], alice = "age", mode = "sealed"), class = "fedreg_error")
    expect_match(conditionMessage(condition), "sealed_limits = \"off\"` rehearses without", fixed = TRUE)
    folder <- tempfile("opened-")
    on.exit(unlink(folder, recursive = TRUE))
    fit <- fed_glm(cost ~ age + crp + ward + bmi, d, alice = c("age", "crp"), mode = "sealed", refit = TRUE, sealed_limits = "off", out = folder)
    sub <- file.path(folder, "sub")
    words <- c("--role", "alice", "refit", "--config", file.path(folder, "alice.toml"), "--drop", "crp,ward", "--out", sub)
    expect_equal(system2(fedreg:::demo_program(), words, stdout = FALSE, stderr = FALSE), 0)
    sub <- read_fedreg(sub)
    expect_fit_of_glm(sub, tight(cost ~ age + bmi, data = d))
    expect_equal(sub$report$refit$run, fit$report$run)
    text <- paste(utils::capture.output(print(summary(sub))), collapse = " ")
    expect_match(gsub(" +", " ", text), paste0("sub-model of the run ", fit$report$run, ".*left out: crp \\(alice\\), factor\\(ward.* Left: alice: nothing "))
})

test_that("a private fit of counts has no errors, and says why", {
    need_programs()
    d <- people()
    bounds <- list(age = c(20, 80), bmi = c(10, 45), stays = c(0, 20))
    fit <- fed_glm(stays ~ age + bmi, d, alice = "age", family = poisson, mode = "private", epsilon = 3, bounds = bounds)
    expect_false(anyNA(coef(fit)))
    expect_true(all(is.na(tidy(fit, conf.int = TRUE)[c("std.error", "statistic", "p.value")])))
    expect_warning(expect_true(all(is.na(confint(fit, level = 0.8)))), "no intervals: ")
    expect_warning(expect_true(all(is.na(vcov(fit)))), "no covariances: ")
    expect_length(predict(fit, d[1:3, ], type = "response"), 3)
    expect_output(print(summary(fit)), "age +alice +-?[0-9.e-]+ +NA +NA +NA")
})

test_that("a dot stands for the columns of each party", {
    need_programs()
    d <- people()[c("cost", "age", "bmi", "crp", "visits")]
    fit <- fed_glm(cost ~ . + log(crp), d, alice = c("age", "crp"), weights = visits)
    expect_fit_of_glm(fit, tight(cost ~ age + bmi + crp + log(crp), data = d, weights = visits))
})

test_that("columns of the fit are found by party where two parties have a coefficient of one name", {
    need_programs()
    d <- people()
    d$g <- factor(ifelse(d$smoker, "ox", "ow"), levels = c("ow", "ox"))
    d$go <- ifelse(d$sex == "f", "w", "x")
    cases <- list(list(cost ~ g + go, "g"), list(cost ~ g + go + age, c("go", "age")))
    for (case in cases) {
        folder <- tempfile("kept-")
        fit <- fed_glm(case[[1]], d, alice = case[[2]], out = folder)
        glm <- tight(case[[1]], data = d)
        expect_true(all(c("gox@alice", "gox@bob") %in% names(coef(fit))))
        expect_lt(largest(sort(coef(fit)), sort(coef(glm))), 1e-8)
        expect_lt(largest(fitted(fit), fitted(glm)), 1e-8)
        expect_lt(largest(residuals(fit), residuals(glm)), 1e-8)
        expect_lt(largest(predict(fit, d[9:1, ]), predict(glm, d[9:1, ])), 1e-8)
        expect_lt(largest(predict(read_fedreg(folder), d[9:1, ]), predict(glm, d[9:1, ])), 1e-8)
        # One party's model file does not say of which column the coefficient of the other one is.
        alone <- tempfile("alone-")
        dir.create(alone)
        file.copy(file.path(folder, "alice", c("report.json", "model.json")), alone)
        expect_error(predict(read_fedreg(alone), d[1:2, ]), "alice and bob have a coefficient `gox` each, and the file model.json")
    }
    # A column of numbers, and a level.
    d$gox <- d$bmi
    d$g <- factor(d$g, levels = c("ox", "ow"))
    levels(d$g) <- c("oz", "ox")
    fit <- fed_glm(cost ~ gox + g, d, alice = "gox")
    glm <- tight(cost ~ gox + g, data = d)
    expect_lt(largest(fitted(fit), fitted(glm)), 1e-8)
    expect_lt(largest(predict(fit, d[9:1, ]), predict(glm, d[9:1, ])), 1e-8)
    # The reference level of one party makes the name of another one's coefficient.
    d$g <- factor(ifelse(d$smoker, "ox", "oy"), levels = c("ox", "oy"))
    folder <- tempfile("kept-")
    fit <- fed_glm(cost ~ g + go, d, alice = "g", out = folder)
    expect_lt(largest(predict(read_fedreg(folder), d), predict(tight(cost ~ g + go, data = d))), 1e-8)
})

test_that("weights and an offset may be terms, too", {
    need_programs()
    d <- people()
    fit <- fed_glm(cost ~ age + visits, d, alice = "age", weights = visits)
    expect_fit_of_glm(fit, tight(cost ~ age + visits, data = d, weights = visits))
    fit <- fed_glm(cost ~ age + years + offset(years), d, alice = "age")
    glm <- tight(cost ~ age + years + offset(years), data = d)
    expect_fit_of_glm(fit, glm)
    expect_lt(largest(predict(fit, d[1:5, ]), predict(glm, d[1:5, ])), 1e-8)
    fit <- fed_glm(cost ~ age + bmi, d, alice = "age", weights = years, offset = years)
    expect_fit_of_glm(fit, tight(cost ~ age + bmi, data = d, weights = years, offset = years))
})

test_that("a dot within a product stands for the other columns", {
    need_programs()
    d <- people()[c("cost", "age", "bmi", "crp")]
    fit <- fed_glm(cost ~ (.) + crp, d, alice = "age")
    expect_fit_of_glm(fit, tight(cost ~ ., data = d))
    fit <- fed_glm(cost ~ . + (age + bmi)^2, d, alice = c("age", "bmi"))
    expect_fit_of_glm(fit, tight(cost ~ . + (age + bmi)^2, data = d))
})

test_that("a column that depends on others has no estimate, as in glm", {
    need_programs()
    d <- people()
    d$twice <- 2 * d$age
    fit <- fed_glm(cost ~ age + twice + bmi, d, alice = c("age", "twice"))
    # Not `tight`, whose tolerance is that of the rank too.
    glm <- glm(cost ~ age + twice + bmi, data = d)
    expect_equal(coef(fit), coef(glm), tolerance = 1e-8)
    expect_equal(rownames(coef(summary(fit))), rownames(coef(summary(glm))))
    expect_equal(is.na(vcov(fit)["twice", "twice"]), TRUE)
    expect_equal(dim(vcov(fit, complete = FALSE)), c(3L, 3L))
    expect_warning(expect_equal(predict(fit), predict(glm), tolerance = 1e-8), "count as 0")
    expect_output(print(summary(fit)), "1 not defined because of singularities")
})

test_that("a robust error is that of the program's sandwich and is named", {
    need_programs()
    d <- people()
    fit <- fed_glm(cost ~ age + bmi, d, alice = "age", errors = "HC3")
    x <- model.matrix(~ age + bmi, d)
    fitted <- lm.fit(x, d$cost)
    bread <- solve(crossprod(x))
    hat <- rowSums((x %*% bread) * x)
    sandwich <- bread %*% crossprod(x * (fitted$residuals / (1 - hat))) %*% bread
    expect_equal(unname(diag(vcov(fit))), unname(diag(sandwich)), tolerance = 1e-8)
    expect_output(print(summary(fit)), "Errors:  HC3")
})

test_that("a private fit has estimates and errors, and no likelihood", {
    need_programs()
    d <- people()
    bounds <- list(age = c(20, 80), ward = c("west", "east", "north"), smoker = c(FALSE, TRUE), bmi = c(10, 45))
    fit <- fed_glm(ill ~ age + ward + smoker + bmi, d, alice = "age", family = binomial, mode = "private", epsilon = 3, bounds = bounds)
    expect_named(coef(fit), c("(Intercept)", "age", "wardeast", "wardnorth", "smokerTRUE", "bmi"))
    expect_true(is.na(logLik(fit)))
    expect_true(is.na(AIC(fit)))
    expect_false(anyNA(tidy(fit)$std.error))
    expect_length(predict(fit, d[1:3, ]), 3)
    expect_output(print(summary(fit)), "epsilon 3 at delta 1e-06", fixed = TRUE)
    condition <- expect_error(fed_glm(cost ~ age + bmi, d, alice = "age", mode = "private"), class = "fedreg_error")
    expect_match(conditionMessage(condition), "in R: bounds = list(", fixed = TRUE)
})

test_that("a call can be changed by update", {
    need_programs()
    d <- people()
    fit <- fed_glm(cost ~ age + bmi, d, alice = "age")
    sealed <- update(fit, mode = "sealed")
    expect_equal(sealed$mode, "sealed")
    expect_equal(coef(sealed), coef(fit), tolerance = 1e-8)
    expect_named(coef(update(fit, . ~ . + log(crp))), c("(Intercept)", "age", "bmi", "log(crp)"))
})

test_that("a folder for the results keeps the page and every party's report", {
    need_programs()
    d <- people()
    folder <- tempfile("kept-")
    on.exit(unlink(folder, recursive = TRUE))
    fit <- fed_glm(cost ~ age + ward + bmi, d, alice = "age", out = folder)
    expect_true(file.exists(file.path(folder, "report.html")))
    bob <- read_fedreg(file.path(folder, "bob"))
    expect_equal(bob$report$role, "bob")
    expect_equal(unname(coef(bob)), unname(coef(fit)), tolerance = 1e-12)
    merged <- read_fedreg(folder)
    expect_equal(unname(coef(merged)), unname(coef(fit)))
})

test_that("numbers go to the programs with all their digits", {
    d <- data.frame(x = c(0.1, 1 / 3, pi * 1e20, -1e-300, NA, 123456789), f = c("a", "b,\"c\"", NA, "d", "e", "f"))
    path <- tempfile()
    on.exit(unlink(path))
    fedreg:::write_table(Map(fedreg:::cells, d, names(d)), path)
    expect_identical(read.csv(path)$x, d$x)
    expect_identical(read.csv(path, na.strings = "")$f, d$f)
})

test_that("a fit that ends without convergence is returned with a warning", {
    need_programs()
    d <- people()
    fit <- NULL
    condition <- tryCatch(fed_glm(cost ~ age + bmi, d, alice = "age", max_rounds = 1), fedreg_error = identity)
    expect_s3_class(condition, c("fedreg_unfinished", "fedreg_error", "warning"), exact = FALSE)
    expect_equal(condition$exit_code, 3L)
    expect_warning(fit <- fed_glm(cost ~ age + bmi, d, alice = "age", max_rounds = 1), "limit of rounds")
    expect_false(fit$converged)
})
