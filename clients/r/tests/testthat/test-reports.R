# Reports as the programs wrote them, read without the programs. tests/make/reports.sh made them.

test_that("a party's report has the coefficients that glm has on the pooled table", {
    fit <- shared()
    expect_s3_class(fit, "fedreg")
    # R 4.2.2: glm(readmitted ~ age * female + bmi + region + log(stay_days), binomial, admissions), epsilon = 1e-15.
    expected <- c(
        "(Intercept)" = -3.93858795758221, age = 0.0262703407447849, femaleTRUE = 0.368488718287035, bmi = 0.0194907248602639,
        "age:femaleTRUE" = -0.00573345445955044, regionnorth = 0.0497065442145926, regionsouth = 0.495828929004842,
        regionwest = 0.341243986134149, "log(stay_days)" = 0.567380693773071
    )
    expect_equal(coef(fit)[names(expected)], expected, tolerance = 1e-6)
    expect_equal(nobs(fit), 600)
    expect_equal(family(fit)$link, "logit")
    expect_equal(coef(shared("bob")), coef(fit))
})

test_that("covariances are those of the own block, and variances those of the standard errors", {
    fit <- shared()
    covariance <- vcov(fit)
    own <- c("(Intercept)", "age", "femaleTRUE", "bmi", "age:femaleTRUE")
    expect_false(anyNA(covariance[own, own]))
    expect_true(all(is.na(covariance[own, "regionsouth"])))
    expect_equal(unname(diag(covariance)), fit$table$std.error^2)
    expect_true(isSymmetric(covariance))
})

test_that("predictions come from the names of terms and the levels of the model files", {
    fit <- shared()
    rows <- data.frame(
        age = c(40, 70, NA), female = c(TRUE, FALSE, TRUE), bmi = c(25, 31, 20), region = c("east", "south", "west"), stay_days = c(1, 9, 2)
    )
    beta <- coef(fit)
    expected <- c(
        sum(beta[c("(Intercept)", "femaleTRUE")]) + 40 * sum(beta[c("age", "age:femaleTRUE")]) + 25 * beta[["bmi"]],
        beta[["(Intercept)"]] + 70 * beta[["age"]] + 31 * beta[["bmi"]] + beta[["regionsouth"]] + log(9) * beta[["log(stay_days)"]], NA
    )
    expect_equal(unname(predict(fit, rows)), expected)
    expect_equal(predict(fit, rows, type = "response"), plogis(predict(fit, rows)))
    text <- transform(rows, female = tolower(female))
    expect_equal(predict(fit, text), predict(fit, rows))
    expect_error(predict(fit, transform(rows, region = "mars")), "has the level \"mars\"", fixed = TRUE)
    expect_error(predict(fit, rows[-4]), "no column for the term `regionnorth`; the nearest name is `region`|no column for the term `regionnorth`")
    expect_error(predict(fit, rows[-5]), "lacks the column `stay_days`", fixed = TRUE)
})

test_that("what a report does not hold is an error that says why", {
    fit <- shared()
    expect_error(predict(fit), "does not hold rows")
    expect_error(residuals(fit), "does not hold")
    expect_error(fitted(fit), "does not hold rows")
    expect_error(augment(fit), "does not hold rows")
    expect_error(plot(fit), "report.html", fixed = TRUE)
    expect_error(formula(fit), "does not hold the formula")
    expect_error(predict(fit, data.frame(age = 1), se.fit = TRUE), "need the covariances")
    own <- read_fedreg(stored("own"))
    expect_named(coef(own), c("(Intercept)", "age", "femaleTRUE", "bmi", "age:femaleTRUE"))
    expect_error(predict(own, data.frame(age = 1)), "coefficients of alice only")
    expect_equal(attr(logLik(own), "df"), 9)
    expect_error(predict(read_fedreg(stored("poly")), data.frame(age = 1)), "`poly(stay_days, 2)1` was computed from the rows", fixed = TRUE)
})

test_that("levels that no model file names are not guessed", {
    folder <- tempfile()
    dir.create(folder)
    on.exit(unlink(folder, recursive = TRUE))
    file.copy(system.file("extdata", "alice", "report.json", package = "fedreg"), folder)
    rows <- data.frame(age = 40, female = TRUE, bmi = 25, region = "east", stay_days = 1)
    expect_error(predict(read_fedreg(folder), rows), "levels of `region` are not in the report", fixed = TRUE)
    # A model file of another run says nothing about this one.
    file.copy(system.file("extdata", "bob", "model.json", package = "fedreg"), folder)
    text <- readLines(file.path(folder, "model.json"))
    expect_length(predict(read_fedreg(folder), rows), 1)
    writeLines(sub("\"run\": \".*\"", "\"run\": \"another\"", text), file.path(folder, "model.json"))
    expect_error(predict(read_fedreg(folder), rows), "levels of `region` are not in the report", fixed = TRUE)
})

test_that("a private report shows its caution first, and withheld intervals at every level are NA", {
    fit <- read_fedreg(stored("private"))
    expect_equal(utils::capture.output(print(fit))[[2]], "THIS RESULT IS MOSTLY NOISE")
    expect_equal(utils::capture.output(print(summary(fit)))[[2]], "THIS RESULT IS MOSTLY NOISE")
    for (level in c(0.95, 0.8)) {
        ends <- NULL
        expect_warning(ends <- confint(fit, level = level), "mostly noise, and p-values and intervals are withheld")
        expect_true(all(is.na(ends)))
    }
    expect_true(is.na(logLik(fit)))
    expect_true(all(is.na(glance(fit)[c("AIC", "BIC", "deviance", "logLik")])))
    expect_false(anyNA(tidy(fit)$std.error))
})

test_that("a private report of counts has estimates, and the reason for having no errors", {
    fit <- read_fedreg(stored("counts"))
    expect_equal(fit$report$role, "bob")
    expect_false(anyNA(coef(fit)))
    table <- tidy(fit, conf.int = FALSE)
    expect_true(all(is.na(table[c("std.error", "statistic", "p.value")])))
    for (level in c(0.95, 0.8)) {
        expect_warning(expect_true(all(is.na(confint(fit, level = level)))), "no intervals: .*(not computed. Counts|withheld)")
    }
    expect_warning(expect_true(all(is.na(vcov(fit)))), "no covariances: ")
    expect_equal(tidy(fit, exponentiate = TRUE)$estimate, exp(unname(coef(fit))))
    expect_true(all(is.na(glance(fit)[c("AIC", "BIC", "deviance", "logLik", "df.residual")])))
    expect_equal(nrow(coef(summary(fit))), length(coef(fit)))
    expect_output(print(summary(fit)), "not computed. Counts")
    expect_output(print(fit), "Private mode, 600 rows")
})

test_that("a report of a sub-model says of which run it is and what it leaves out", {
    fit <- read_fedreg(stored("refit"))
    # R 4.2.2: lm(progression ~ age + bmi + s1 + s5, diabetes).
    model <- c(
        "(Intercept)" = -294.125513168658642, age = 0.144103371693408, bmi = 7.295050193775253, s1 = -0.275817414102430,
        s5 = 64.424986224491121
    )
    errors <- c(25.0317283540348612, 0.2154981673680997, 0.6806169844542853, 0.0914767190824464, 6.5407705411616570)
    expect_equal(coef(fit), model, tolerance = 1e-9)
    expect_equal(unname(coef(summary(fit))[, "Std. Error"]), errors, tolerance = 1e-9)
    expect_equal(fit$report$refit$charged, 0)
    text <- gsub(" +", " ", paste(utils::capture.output(print(summary(fit))), collapse = " "))
    expect_match(text, "Model: sub-model of the run [0-9a-f]+, from what opened in it; left out: sex \\(alice\\), s6 \\(bob\\)")
    expect_equal(attr(logLik(fit), "df"), 6)
})

test_that("a report of quasi-likelihood between three parties is read at any of them", {
    fit <- read_fedreg(stored("quasi"))
    expect_equal(fit$report$role, "office")
    expect_equal(family(fit)$family, "quasibinomial")
    expect_equal(unique(tidy(fit)$party), c("clinic", "lab", "office"))
    known <- vcov(fit)
    own <- names(coef(fit))[tidy(fit)$party == "office"]
    expect_false(anyNA(known[own, own]))
    expect_true(all(is.na(known[own, setdiff(names(coef(fit)), own)])))
    expect_equal(colnames(coef(summary(fit)))[3:4], c("t value", "Pr(>|t|)"))
    # R 4.2.2: glm(readmitted ~ age + bmi + log(stay_days) + female, quasibinomial, admissions), epsilon = 1e-15.
    expect_equal(fit$dispersion, 1.00681120554509, tolerance = 1e-7)
    expect_equal(coef(fit)[["log(stay_days)"]], 0.5585166537829702, tolerance = 1e-6)
    expect_equal(fit$table$std.error[[2]], 0.00581271825349141, tolerance = 1e-6)
    ends <- unname(coef(fit)["age"]) + fit$table$std.error[2] * qt(c(0.05, 0.95), fit$df.residual)
    expect_equal(unname(confint(fit, "age", level = 0.9)[1, ]), ends)
    expect_true(is.na(AIC(fit)))
})

test_that("a fit between sites is read too", {
    fit <- read_fedreg(stored("robust"))
    expect_equal(unique(tidy(fit)$party), "worker")
    expect_equal(length(coef(fit)), 11)
    expect_true(is.na(AIC(fit)))
    t <- qt(0.95, fit$df.residual)
    expect_equal(confint(fit, "bmi", level = 0.9)[1, 2], unname(coef(fit)["bmi"] + t * fit$table$std.error[4]))
    expect_output(print(summary(fit)), "Left: +all: batch estimates")
})

test_that("what is no report, and a report of another version, are refused", {
    expect_error(read_fedreg(tempfile()), "there is no report at", class = "fedreg_report")
    expect_error(read_fedreg(stored("features")), "is a function", class = "fedreg_report")
    expect_error(read_fedreg(system.file("extdata", "bob", "model.json", package = "fedreg")), "a model file", class = "fedreg_report")
    expect_error(read_fedreg(c("a", "b")), "path of a report.json")
    file <- tempfile()
    on.exit(unlink(file))
    writeLines("{", file)
    expect_error(read_fedreg(file), "is no JSON", class = "fedreg_report")
    text <- readLines(system.file("extdata", "alice", "report.json", package = "fedreg"))
    writeLines(sub("\"version\": \"0.1.0\"", "\"version\": \"0.10.0\"", text, fixed = TRUE), file)
    expect_error(read_fedreg(file), "made by fedreg 0.10.0, and this package reads reports of 0.1", class = "fedreg_version")
    writeLines(sub("\"version\": \"0.1.0\"", "\"version\": \"0.1.9\"", text, fixed = TRUE), file)
    expect_s3_class(read_fedreg(file), "fedreg")
})

test_that("a summary prints the lines of summary.glm", {
    lines <- utils::capture.output(print(summary(shared())))
    expect_true("               Party  Estimate Std. Error z value Pr(>|z|)    " %in% lines)
    expect_true("age            alice  0.026270   0.008627   3.045  0.00232 ** " %in% lines)
    expect_true("    Null deviance: 767.91  on 599  degrees of freedom" %in% lines)
    expect_true("Residual deviance: 719.40  on 591  degrees of freedom" %in% lines)
    expect_true("AIC: 737.4" %in% lines)
    expect_true("(Dispersion parameter for binomial family taken to be 1)" %in% lines)
    expect_equal(dimnames(coef(summary(shared())))[[2]], c("Estimate", "Std. Error", "z value", "Pr(>|z|)"))
})

test_that("nothing but jsonlite and generics is needed beside R itself", {
    imports <- trimws(strsplit(utils::packageDescription("fedreg")$Imports, ",")[[1]])
    with_r <- rownames(utils::installed.packages(priority = "base"))
    expect_setequal(setdiff(imports, with_r), c("generics", "jsonlite"))
})
