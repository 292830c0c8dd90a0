# Fits need the programs. Where they must be there (`.ci/clients`), a missing one is a failure and not a skipped test.
need_programs <- function() {
    found <- tryCatch(
        {
            fedreg:::demo_version(fedreg:::demo_program())
            TRUE
        },
        fedreg_error = function(e) conditionMessage(e)
    )
    if (isTRUE(found)) return(invisible())
    if (nzchar(Sys.getenv("FEDREG_PROGRAMS_REQUIRED"))) stop(found)
    skip("the programs of fedreg are not here")
}

stored <- function(name) test_path("reports", name)

shared <- function(party = "alice") read_fedreg(system.file("extdata", party, package = "fedreg"))

# A table with the kinds of columns that models have. Outcomes of three families depend on columns of both parties.
people <- function(rows = 300, seed = 17) {
    RNGkind("Mersenne-Twister", "Inversion", "Rejection")
    set.seed(seed)
    d <- data.frame(
        age = round(runif(rows, 20, 80), 1), crp = rexp(rows) + 0.1, sex = sample(c("f", "m"), rows, TRUE),
        ward = factor(sample(c("north", "east", "west"), rows, TRUE), levels = c("north", "east", "west")),
        grade = factor(sample(1:3, rows, TRUE)), smoker = runif(rows) < 0.3, bmi = rnorm(rows, 26, 4),
        years = runif(rows, 0.5, 3), visits = sample(1:4, rows, TRUE)
    )
    eta <- 0.03 * (d$age - 50) + 0.5 * log(d$crp) + 0.4 * (d$ward == "west") + 0.1 * (d$bmi - 26) - 0.3 * d$smoker
    d$cost <- 10 + 2 * eta + rnorm(rows)
    d$ill <- as.integer(runif(rows) < plogis(eta))
    d$stays <- rpois(rows, d$years * exp(0.4 * eta))
    d
}

# `glm` with iterations that end at rounding: its default tolerance is off by 1e-7. Its standard errors are of the iterate before the
# last, so that it begins once more where it ended.
tight <- function(formula, ...) {
    call <- match.call()
    call[[1]] <- quote(stats::glm)
    call$control <- quote(stats::glm.control(epsilon = 1e-15, maxit = 200))
    suppressWarnings({
        call$start <- stats::coef(eval(call, parent.frame()))
        eval(call, parent.frame())
    })
}

largest <- function(a, b) max(abs(unname(a) - unname(b)) / pmax(1, abs(unname(b))))
