# Rscript quasi.R VECTORS_FOLDER: the binomial and poisson fits of `glm/` with an estimated dispersion, into `quasi/`, by
# `glm(family = quasibinomial)` and `quasipoisson`, `anova(test = "F")` and car's `linearHypothesis`. Needs jsonlite and car.
#
# R's own covariance and dispersion use the weights and residuals of the last iteration but one, so both are taken at the solution here;
# R confirms them to the digits that it has.
suppressPackageStartupMessages({ library(jsonlite); library(car) })
Sys.setlocale("LC_ALL", "C.UTF-8") |> invisible()
arguments <- commandArgs(trailingOnly = TRUE)
here <- dirname(sub("--file=", "", grep("--file=", commandArgs(), value = TRUE)))
source(file.path(here, "design.R"))
folder <- arguments[1]
near <- function(a, b, tolerance) stopifnot(isTRUE(all.equal(unname(a), unname(b), tolerance = tolerance)))
f_test <- function(statistic, df, df_residual) {
  list(statistic = full(statistic), df = df, df_residual = df_residual, p_value = full(pf(statistic, df, df_residual, lower.tail = FALSE)))
}
tight <- glm.control(epsilon = 1e-15, maxit = 200)

one <- function(file) {
  case <- fromJSON(file, simplifyVector = FALSE)
  if ("fewer_rows_than_columns" %in% unlist(case$tags) || case$family == "gaussian") return(NULL)
  d <- design(case, folder)
  rows <- counted(case, d)
  y <- rows$y; n <- rows$n; w <- rows$w; o <- rows$o; x <- rows$x
  family <- get(paste0("quasi", case$family))()
  fitted_to <- function(x) suppressWarnings(glm.fit(x, y, w, offset = o, family = family, intercept = case$intercept, control = tight))
  fit <- fitted_to(x)
  rank <- ncol(x); df <- n - rank
  mu <- family$linkinv(fit$linear.predictors)
  pearson <- function(fit) sum(w * (y - fit$fitted.values)^2 / family$variance(fit$fitted.values))
  dispersion <- pearson(fit) / df
  weights <- w * family$mu.eta(fit$linear.predictors)^2 / family$variance(mu)
  size <- sqrt(colSums(weights * x^2))
  inverse <- chol2inv(qr.R(qr(sweep(x * sqrt(weights), 2, size, "/"), tol = 0, LAPACK = FALSE)))
  v <- dispersion * inverse / outer(size, size)
  dimnames(v) <- list(colnames(x), colnames(x))
  # Columns of very different sizes are told apart by R to fewer digits than these.
  sound <- !("unscaled" %in% unlist(case$tags)) && !("ill_conditioned" %in% unlist(case$tags))
  model <- suppressWarnings(glm(y ~ x - 1, family = family, weights = w, offset = o, control = tight))
  if (sound) { near(summary(model)$dispersion, dispersion, 1e-6); near(sqrt(diag(vcov(model))), sqrt(diag(v)), 1e-6) }
  errors <- sqrt(diag(v)); estimates <- fit$coefficients; statistic <- estimates / errors
  half <- qt(0.975, df) * errors
  coefficients <- lapply(seq_len(rank), function(i) list(term = colnames(x)[i], estimate = full(estimates[[i]]), std_error = full(errors[[i]]),
    statistic = full(statistic[[i]]), p_value = full(2 * pt(-abs(statistic[[i]]), df)), conf_low = full(estimates[[i]] - half[[i]]),
    conf_high = full(estimates[[i]] + half[[i]])))
  if (sound) near(summary(model)$coefficients[, 4], 2 * pt(-abs(statistic), df), 1e-4)
  columns <- c(unlist(case$alice), unlist(case$bob))
  frame <- read_table(file.path(folder, case$data), used_by(case))
  width <- sapply(columns, function(name) if (is.factor(frame[[name]])) nlevels(frame[[name]]) - 1 else 1)
  of <- c(if (case$intercept) "", rep(columns, width))[!(colnames(d$x) %in% unlist(case$aliased))]
  terms <- lapply(setdiff(unique(of), ""), function(name) {
    at <- which(of == name)
    statistic <- drop(t(estimates[at]) %*% solve(v[at, at, drop = FALSE], estimates[at], tol = 0)) / length(at)
    if (sound) near(linearHypothesis(model, diag(rank)[at, , drop = FALSE], test = "F")[["F"]][2], statistic, 1e-6)
    list(term = name, df = length(at), wald = f_test(statistic, length(at), df))
  })
  null <- suppressWarnings(glm(if (case$intercept) y ~ 1 else y ~ 0, family = family, weights = w, offset = o, control = tight))
  fall <- null$deviance - fit$deviance
  compared <- anova(null, model, test = "F")
  if (sound) near(compared$F[2], fall / (null$df.residual - df) / dispersion, 1e-6)
  # The smaller fit lacks the last column of each party.
  nested <- NULL
  if (length(case$alice) > 1 && length(case$bob) > 1 && !length(unlist(case$aliased))) {
    less <- !(of %in% c(tail(unlist(case$alice), 1), tail(unlist(case$bob), 1)))
    smaller <- fitted_to(x[, less, drop = FALSE])
    more <- sum(!less)
    nested <- list(alice = head(case$alice, -1), bob = head(case$bob, -1),
      f = f_test((smaller$deviance - fit$deviance) / more / dispersion, more, df))
  }
  list(name = case$name, generator = "make/quasi.R", versions = list(R = paste(R.version$major, R.version$minor, sep = "."),
      car = as.character(packageVersion("car"))),
    family = family$family, dispersion = full(dispersion), deviance = full(fit$deviance), null_deviance = full(null$deviance), df_residual = df,
    f_test = f_test(fall / (null$df.residual - df) / dispersion, null$df.residual - df, df), smaller = nested,
    coefficients = coefficients, term_tests = terms,
    covariance = list(terms = colnames(x), matrix = lapply(seq_len(rank), function(i) full(unname(v[i, ])))))
}

unlink(Sys.glob(file.path(folder, "quasi", "*.json")))
dir.create(file.path(folder, "quasi"), showWarnings = FALSE)
for (file in Sys.glob(file.path(folder, "glm", "*.json"))) {
  out <- one(file)
  if (is.null(out)) next
  text <- toJSON(out, auto_unbox = TRUE, na = "null", null = "null", digits = I(17))
  text <- gsub('"(-?[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?)"', "\\1", text)
  text <- gsub('"R":([0-9.]+)', '"R":"\\1"', gsub('"car":([0-9.]+)', '"car":"\\1"', text))
  text <- gsub(',"(dispersion|f_test|smaller|coefficients|term_tests|covariance)":', ',\n "\\1":', text)
  text <- gsub('},{', '},\n  {', gsub('],[', '],\n  [', text, fixed = TRUE), fixed = TRUE)
  writeLines(text, file.path(folder, "quasi", basename(file)))
}
