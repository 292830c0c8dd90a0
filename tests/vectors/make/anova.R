# Rscript anova.R VECTORS_FOLDER: Wald tests of the terms of formulas with interactions, types II and III, into `formulas/anova.json`, by `Anova`
# of the package car, on `formulas/table.csv`. Needs jsonlite and car.
#
# A fit of another family than gaussian is started at its solution, so that R's working weights, which are those of the last iteration but
# one, are those of the solution.
suppressPackageStartupMessages({ library(jsonlite); library(car); library(splines) })
folder <- commandArgs(trailingOnly = TRUE)[1]
table <- read.csv(file.path(folder, "formulas", "table.csv"), check.names = FALSE)
table$count <- round(abs(table$y) * table$k)
tight <- glm.control(epsilon = 1e-15, maxit = 200)
cases <- list(
  list(family = "gaussian", outcome = "y", alice = "~ log(x) * g + poly(z, 2)", bob = "~ ns(age, df = 3) + factor(k)"),
  list(family = "gaussian", outcome = "y", alice = "~ x * z", bob = "~ (age + factor(k) + `a b`)^2"),
  list(family = "gaussian", outcome = "y", alice = "~ x * z * g", bob = "~ age"),
  list(family = "binomial", outcome = "event", alice = "~ x * g", bob = "~ poly(age, 2) * `a b`"),
  list(family = "poisson", outcome = "k", alice = "~ log(x) * g", bob = "~ age * `a b`"),
  list(family = "quasipoisson", outcome = "k", alice = "~ log(x) * g", bob = "~ age * `a b`"),
  list(family = "quasibinomial", outcome = "event", alice = "~ x + z + x:z", bob = "~ cut(age, c(0, 45, 120)) * `a b`")
)
one <- function(case) {
  formula <- as.formula(paste(case$outcome, "~", sub("~", "", case$alice), "+", sub("~", "", case$bob)))
  gaussian <- case$family == "gaussian"
  f <- gaussian || startsWith(case$family, "quasi")
  environment(formula) <- environment()
  fit <- if (gaussian) lm(formula, table) else suppressWarnings(glm(formula, case$family, table, control = tight))
  if (!gaussian) { begin <- coef(fit); fit <- suppressWarnings(glm(formula, case$family, table, control = tight, start = begin)) }
  df <- fit$df.residual
  dispersion <- if (gaussian) NULL else if (f) sum(fit$prior.weights * (fit$y - fit$fitted.values)^2 / fit$family$variance(fit$fitted.values)) / df else 1
  tests <- function(type) {
    # Chi-square in all: F is that over its degrees of freedom, with the dispersion of the covariance.
    v <- if (gaussian) vcov(fit) else {
      w <- fit$prior.weights * fit$family$mu.eta(fit$linear.predictors)^2 / fit$family$variance(fit$fitted.values)
      x <- model.matrix(fit)
      size <- sqrt(colSums(w * x^2))
      inverse <- chol2inv(qr.R(qr(sweep(x * sqrt(w), 2, size, "/"), tol = 0)))
      out <- dispersion * inverse / outer(size, size)
      dimnames(out) <- list(colnames(x), colnames(x))
      out
    }
    table <- car:::Anova.default(fit, type = type, vcov. = v, test.statistic = "Chisq")
    rows <- setdiff(rownames(table), c("(Intercept)", "Residuals"))
    lapply(rows, function(row) {
      size <- table[row, "Df"]
      statistic <- if (f) table[row, "Chisq"] / size else table[row, "Chisq"]
      p <- if (f) pf(statistic, size, df, lower.tail = FALSE) else pchisq(statistic, size, lower.tail = FALSE)
      list(term = gsub("`a b`", "a b", row), test = list(statistic = statistic, df = size, df_residual = if (f) df, p_value = p))
    })
  }
  if (gaussian) {
    # Of a gaussian fit these are the tests of sums of squares.
    sums <- Anova(fit, type = 2); wald <- tests("II")
    stopifnot(isTRUE(all.equal(sums[seq_along(wald), "F value"], sapply(wald, function(row) row$test$statistic), tolerance = 1e-7)))
  }
  c(case, list(type_ii = tests("II"), type_iii = tests("III")))
}
out <- list(generator = "make/anova.R", versions = list(R = paste(R.version$major, R.version$minor, sep = "."), car = as.character(packageVersion("car"))),
  fits = lapply(cases, one))
write_json(out, file.path(folder, "formulas", "anova.json"), digits = I(17), auto_unbox = TRUE, null = "null", pretty = 1)
