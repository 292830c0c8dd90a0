# Rscript penalised.R CASES.json VECTORS_FOLDER OUT.json: what glmnet and cv.glmnet say about every penalised case.
suppressPackageStartupMessages({library(jsonlite); library(glmnet)})
Sys.setlocale("LC_ALL", "C.UTF-8") |> invisible()
options(warn = 1)
arguments <- commandArgs(trailingOnly = TRUE)
here <- dirname(sub("--file=", "", grep("--file=", commandArgs(), value = TRUE)))
source(file.path(here, "design.R"))
cases <- fromJSON(arguments[1], simplifyVector = FALSE)
# Without this a default path ends before its 100 values once the deviance no longer moves.
glmnet.control(fdev = 0, devmax = 1)

inputs <- function(case) {
  d <- design(case, arguments[2])
  x <- d$x[, colnames(d$x) != "(Intercept)", drop = FALSE]
  y <- d$y
  w <- d$weights
  if (case$family == "binomial" && !all(y %in% c(0, 1))) {
    # Proportions: glmnet takes counts of failures and successes, which carry the weights.
    y <- cbind(w * (1 - y), w * y)
    w <- NULL
  }
  list(x = x, y = y, weights = w, offset = d$offset, n = d$n)
}

call_glmnet <- function(case, d, lambda) {
  suppressWarnings(glmnet(
    d$x, d$y, family = case$family, weights = d$weights, offset = d$offset, alpha = case$alpha, lambda = lambda,
    intercept = case$intercept, standardize = TRUE, thresh = 1e-20, maxit = 1e7
  ))
}

lambdas <- function(case) if (identical(case$lambdas, "path")) NULL else unlist(case$lambdas)

path_of <- function(fit) {
  list(
    lambda = full(fit$lambda), intercept = full(fit$a0), terms = rownames(fit$beta),
    beta = apply(as.matrix(fit$beta), 2, full, simplify = FALSE) |> unname(), df = fit$df,
    deviance_ratio = full(fit$dev.ratio), null_deviance = full(fit$nulldev), jerr = fit$jerr
  )
}

fit_one <- function(case) {
  d <- inputs(case)
  c(list(name = case$name), path_of(call_glmnet(case, d, lambdas(case))))
}

cross_validate <- function(case) {
  d <- inputs(case)
  given <- lambdas(case)
  if (is.null(given)) given <- call_glmnet(case, d, NULL)$lambda
  foldid <- 1 + (seq_len(d$n) - 1) %% case$folds
  w <- if (is.null(d$weights)) rep(1, d$n) else d$weights
  measure <- if (case$family == "gaussian") "mse" else "deviance"
  cv <- suppressWarnings(cv.glmnet(
    d$x, d$y, family = case$family, weights = w, offset = d$offset, alpha = case$alpha, lambda = given, foldid = foldid,
    type.measure = measure, grouped = TRUE, keep = TRUE, intercept = case$intercept, thresh = 1e-20, maxit = 1e7
  ))
  list(
    name = case$name, measure = measure, lambda = full(cv$lambda), cvm = full(cv$cvm), cvsd = full(cv$cvsd),
    lambda_min = full(cv$lambda.min), lambda_1se = full(cv$lambda.1se)
  )
}

out <- list(
  r = paste(R.version$major, R.version$minor, sep = "."), glmnet = as.character(packageVersion("glmnet")),
  penalised = lapply(cases$penalised, fit_one),
  cross_validation = lapply(cases$cross_validation, cross_validate)
)
write(toJSON(out, auto_unbox = TRUE, na = "null", null = "null", digits = I(17)), arguments[3])
