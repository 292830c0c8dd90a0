# Rscript glm.R CASES.json VECTORS_FOLDER OUT.json: what R's glm says about every case.
#
# glm.fit passes min(1e-7, epsilon / 1000) to its QR as the tolerance for dependent columns, so the tight epsilon = 1e-15
# would also switch off the detection of collinearity. Dependent columns are therefore found with glm's own default
# control, and the tight fit runs without them.
suppressPackageStartupMessages(library(jsonlite))
Sys.setlocale("LC_ALL", "C.UTF-8") |> invisible()
options(warn = 1)
arguments <- commandArgs(trailingOnly = TRUE)
here <- dirname(sub("--file=", "", grep("--file=", commandArgs(), value = TRUE)))
source(file.path(here, "design.R"))
cases <- fromJSON(arguments[1], simplifyVector = FALSE)

fit_one <- function(case) {
  d <- design(case, arguments[2])
  m <- formula_design(case, arguments[2])
  stopifnot(identical(unname(d$x), unname(matrix(as.vector(m), nrow(m)))), identical(colnames(d$x), colnames(m)))
  family <- get(case$family)()
  n <- d$n
  w <- if (is.null(d$weights)) rep(1, n) else d$weights
  o <- if (is.null(d$offset)) rep(0, n) else d$offset

  first <- suppressWarnings(glm.fit(d$x, d$y, w, offset = o, family = family, intercept = case$intercept))
  kept <- !is.na(first$coefficients)
  tight <- glm.control(epsilon = 1e-15, maxit = 200)
  x <- d$x[, kept, drop = FALSE]
  fit <- suppressWarnings(glm.fit(x, d$y, w, offset = o, family = family, intercept = case$intercept, control = tight))
  class(fit) <- c("glm", "lm")
  null_deviance <- fit$null.deviance
  if (!is.null(d$offset) && case$intercept) {
    null_deviance <- suppressWarnings(glm.fit(x[, 1, drop = FALSE], d$y, w, offset = o, family = family, intercept = TRUE, control = tight))$deviance
  }
  s <- suppressWarnings(summary(fit))
  table <- s$coefficients
  critical <- if (case$family == "gaussian") suppressWarnings(qt(0.975, fit$df.residual)) else qnorm(0.975)
  rows <- lapply(seq_along(kept), function(j) {
    term <- colnames(d$x)[j]
    if (!kept[j]) return(list(term = term))
    b <- table[term, ]
    list(
      term = term, estimate = full(b[[1]]), std_error = full(b[[2]]), statistic = full(b[[3]]), p_value = full(b[[4]]),
      conf_low = full(b[[1]] - critical * b[[2]]), conf_high = full(b[[1]] + critical * b[[2]])
    )
  })
  log_lik <- as.numeric(logLik(fit))
  list(
    name = case$name, coefficients = rows, nobs = nobs(fit), df_residual = fit$df.residual, deviance = full(fit$deviance),
    null_deviance = full(null_deviance), aic = full(AIC(fit)), bic = full(BIC(fit)), log_lik = full(log_lik),
    dispersion = full(s$dispersion), converged = fit$converged, iterations = fit$iter, fitted_range = full(range(fit$fitted.values))
  )
}

out <- list(
  r = paste(R.version$major, R.version$minor, sep = "."),
  glm = lapply(cases$glm, fit_one),
  termination = lapply(cases$termination, fit_one),
  longley_is_r = isTRUE(all.equal(unname(as.matrix(longley)), {
    t <- read_table(file.path(arguments[2], "data/longley.csv"))
    unname(as.matrix(data.frame(t$GNP.deflator, t$GNP / 1000, t$Unemployed / 10, t$Armed.Forces / 10, t$Population / 1000, t$Year, t$Employed / 1000)))
  }, tolerance = 1e-15))
)
write(toJSON(out, auto_unbox = TRUE, na = "null", null = "null", digits = I(17)), arguments[3])
