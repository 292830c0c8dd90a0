# What is refused, with a sentence that says what to do.

test_that("a missing program is named, with how to get it", {
    before <- Sys.getenv(c("FEDREG_BIN", "PATH"))
    on.exit(do.call(Sys.setenv, as.list(before)))
    Sys.setenv(FEDREG_BIN = file.path(tempdir(), "nowhere"))
    condition <- expect_error(fed_glm(mpg ~ wt + hp, mtcars, alice = "wt"), class = "fedreg_missing_program")
    expect_s3_class(condition, "fedreg_error")
    expect_match(conditionMessage(condition), "was not found in .*nowhere.*cargo build --release.*Sys.setenv\\(FEDREG_BIN")
    Sys.setenv(FEDREG_BIN = "", PATH = tempdir())
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, alice = "wt"), "not found on PATH", class = "fedreg_missing_program")
})

# A program called `demo` that answers this.
pretend <- function(answer) {
    folder <- tempfile("pretend-")
    dir.create(folder)
    path <- file.path(folder, "demo")
    writeLines(c("#!/bin/sh", paste("echo", shQuote(answer))), path)
    Sys.chmod(path, "755")
    folder
}

test_that("another program of the same name, and another version, are refused", {
    skip_on_os("windows")
    before <- options(fedreg.bin = pretend("a demonstration"))
    on.exit(options(before))
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, alice = "wt"), "is no program of fedreg", class = "fedreg_missing_program")
    options(fedreg.bin = pretend("demo 7.1.0"))
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, alice = "wt"), "is fedreg 7.1.0", class = "fedreg_version")
})

test_that("the program's sentence and exit code are those of the condition", {
    need_programs()
    condition <- expect_error(fed_glm(mpg ~ wt + hp, mtcars, alice = "wt", family = "gausian"), class = "fedreg_error")
    expect_equal(condition$exit_code, 2L)
    expect_match(condition$sentence, "a similar value exists: 'gaussian'")
    condition <- expect_error(fed_glm(mpg ~ wt + lg(hp), mtcars, alice = "wt"), class = "fedreg_error")
    expect_match(condition$sentence, "the function `lg` is not understood")
    condition <- expect_error(fed_glm(mpg ~ log(am) + hp, mtcars, alice = "am"), class = "fedreg_error")
    expect_equal(condition$exit_code, 65L)
    expect_match(conditionMessage(condition), "`log\\(am\\)`, line 5.*row N - 1")
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, alice = "wt", epsilonn = 3), "'--epsilonn' found", class = "fedreg_error")
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, alice = "wt", mode = "seled"), "'sealed'", class = "fedreg_error")
})

test_that("columns and dealing are checked before a program runs, with the nearest name", {
    expect_error(fed_glm(mpg ~ wt + hpp, mtcars), "no column `hpp` in `data`; the nearest name is `hp`", fixed = TRUE)
    expect_error(fed_glm(mpgg ~ wt + hp, mtcars), "the nearest name is `mpg`", fixed = TRUE)
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, alice = "wtt"), "`alice`: there is no column `wtt`", fixed = TRUE)
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, alice = "wt", bob = c("wt", "hp")), "`wt` is dealt twice", fixed = TRUE)
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, alice = c("wt", "hp")), "no term of the formula is of bob", fixed = TRUE)
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, alice = "wt", bob = "qsec"), "nobody holds `hp`", fixed = TRUE)
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, alice = c("wt", "mpg")), "`mpg` is the outcome", fixed = TRUE)
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, parties = list("wt", "hp")), "a name for each party", fixed = TRUE)
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, alice = "wt", parties = list(a = "wt", b = "hp")), "either `alice`", fixed = TRUE)
})

test_that("a variable of R in a formula is no column", {
    knots <- 3
    expect_error(fed_glm(mpg ~ ns(wt, knots) + hp, mtcars), "`knots` is no column of `data`, and the programs know no variables", fixed = TRUE)
    expect_error(fed_glm(mpg ~ wt + T, mtcars), "no column `T`", fixed = TRUE)
})

test_that("an interaction across parties is refused with the reason", {
    expect_error(fed_glm(mpg ~ wt * hp, mtcars, alice = "wt"), "joins `wt` of alice and `hp` of bob", fixed = TRUE)
    expect_error(fed_glm(mpg ~ (wt + hp)^2, mtcars, alice = "wt"), "no party sees a column of another", fixed = TRUE)
    expect_error(fed_glm(mpg ~ .^2, mtcars, alice = "wt"), "the term `.^2` joins `wt` of alice and `cyl`", fixed = TRUE)
    expect_error(fed_glm(mpg ~ wt * ., mtcars, alice = "wt"), "the term `wt * .` joins", fixed = TRUE)
    expect_error(fed_glm(mpg ~ log(.), mtcars, alice = "wt"), "in `log(.)` name the columns", fixed = TRUE)
})

test_that("models that a rehearsal has not are refused", {
    expect_error(fed_glm(mpg ~ 0 + wt + factor(cyl), mtcars, alice = "wt"), "`factor(cyl)` has all its levels in R, and here only the first factor of alice", fixed = TRUE)
    expect_error(fed_glm(mpg ~ 0 + factor(cyl) + factor(am), mtcars, alice = "am"), "write a factor of alice before it", fixed = TRUE)
    expect_error(fed_glm(mpg ~ wt + hp + qsec - qsec, mtcars), "cannot be taken away")
    expect_error(fed_glm(cbind(am, vs) ~ wt + hp, mtcars), "has 2 columns")
    expect_error(fed_glm(am ~ wt + hp, mtcars, family = binomial("probit")), "has the link logit")
    expect_error(fed_glm(am ~ wt + hp, mtcars, family = quasibinomial("probit")), "a quasibinomial model has the link logit")
    expect_error(fed_glm(am ~ wt + hp, mtcars, family = quasipoisson("sqrt")), "a quasipoisson model has the link log, and not sqrt")
    expect_error(fed_glm(am ~ wt + hp, mtcars, family = 1), "gaussian, binomial, poisson, quasibinomial or quasipoisson")
    expect_error(fed_glm(~ wt + hp, mtcars), "two sides")
    expect_error(fed_glm("mpg ~ wt + log(hp", mtcars), "unexpected end of input")
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, subset = wt > 3), "no argument `subset` as in `glm`", fixed = TRUE)
    expect_error(fed_glm(mpg ~ wt + hp, as.matrix(mtcars)), "a data frame")
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, data_ = 1, format = "csv"), "has no place here")
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, table = "cars"), "the flag --table of the program has no place here", fixed = TRUE)
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, "wt", "hp", gaussian, "plain", NULL, NULL, "refuse", NULL, NULL, NULL, "x"), "no name")
})

test_that("levels that the programs read as missing values are refused by name", {
    need_programs()
    d <- people()
    text <- function(level) ifelse(d$ward == "west", level, as.character(d$ward))
    for (level in c("NA", "", " ", " NA ")) {
        for (make in list(identity, factor)) {
            d$ward <- make(text(level))
            for (missing in c("refuse", "complete-cases")) {
                expect_error(
                    fed_glm(cost ~ age + ward, d, alice = "age", missing = missing),
                    paste0("column `ward` has the level \"", level, "\", which the programs read as a missing value"), fixed = TRUE
                )
            }
        }
        d$ward <- people()$ward
    }
    d$ward <- addNA(replace(d$ward, d$ward == "west", NA))
    expect_error(fed_glm(cost ~ age + ward, d, alice = "age", missing = "complete-cases"), "`ward` has NA among its levels (`addNA`)", fixed = TRUE)
    # A level that no row has is none.
    d$ward <- addNA(people()$ward)
    expect_equal(nobs(fed_glm(cost ~ age + ward, d, alice = "age")), 300)
    d$ward <- people()$ward
    levels(d$ward) <- c("north", "east", "NA")
    bounds <- list(age = c(20, 80), ward = c("NA", "east", "north"), cost = c(0, 20))
    fit <- fed_glm(cost ~ age + ward, d, alice = "age", mode = "private", epsilon = 3, bounds = bounds)
    expect_named(coef(fit), c("(Intercept)", "age", "wardeast", "wardnorth"))
    d$state <- ifelse(d$ill == 1, "NA", "no")
    expect_error(fed_glm(state ~ age + bmi, d, alice = "age", family = binomial), "column `state` has the level \"NA\"", fixed = TRUE)
})

test_that("letters that the locale does not have are refused by name", {
    before <- Sys.getlocale("LC_CTYPE")
    on.exit(Sys.setlocale("LC_CTYPE", before))
    Sys.setlocale("LC_CTYPE", "C")
    d <- data.frame(y = 1:5, a = c(1, 3, 2, 5, 4), b = c(1, 0, 1, 1, 0), g = c("z\u00e4", "z", "z", "z\u00e4", "z"))
    expect_error(fed_glm(y ~ a + g, d, alice = "a"), "column `g`: the level .* has letters that the locale of R, C, does not have")
    names(d)[[3]] <- "gr\u00f6\u00dfe"
    expect_error(fed_glm(y ~ ., d[-4], alice = "a"), "the column .*LC_ALL=C.UTF-8")
    expect_error(fed_glm(y ~ a, d[-4], alice = "a", bob = names(d)[[3]]), "the column .*LC_ALL=C.UTF-8")
    need_programs()
    d$x <- c(2, 1, 1, 4, 4)
    # R itself warns of the name, which the model has not.
    fit <- suppressWarnings(fed_glm(y ~ a + x, d, alice = "a"))
    expect_equal(coef(fit), suppressWarnings(coef(lm(y ~ a + x, d))), tolerance = 1e-8)
})

test_that("bounds are checked before a program runs", {
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, bounds = list(wtt = c(0, 1))), "`wtt` is no column of the model", fixed = TRUE)
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, bounds = list(wt = c(1, 0))), "the smaller one first")
    expect_error(fed_glm(mpg ~ wt + hp, mtcars, bounds = "no-such-file.toml"), "there is no file")
})

test_that("columns that no program can read are named with their class", {
    need_programs()
    d <- mtcars
    d$list <- as.list(seq_len(nrow(d)))
    expect_error(fed_glm(mpg ~ list + hp, d, alice = "list"), "column `list` is list")
    d$day <- as.Date("2024-01-01") + seq_len(nrow(d))
    expect_error(fed_glm(mpg ~ day + hp, d, alice = "day"), "is a date", class = "fedreg_error")
    d$ordered <- factor(d$carb, ordered = TRUE)
    expect_warning(fed_glm(mpg ~ ordered + hp, d, alice = "ordered"), "is an ordered factor")
})
