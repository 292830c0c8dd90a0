# Rscript hypotheses.R VECTORS_FOLDER: tests of two nested fits and of linear hypotheses for fits of `glm/`, into `hypotheses/`.
# Needs jsonlite and car.
#
# The smaller fit lacks the last column of each party. Hypotheses are about the first terms of the first party.
suppressPackageStartupMessages({ library(jsonlite); library(car) })
Sys.setlocale("LC_ALL", "C.UTF-8") |> invisible()
arguments <- commandArgs(trailingOnly = TRUE)
here <- dirname(sub("--file=", "", grep("--file=", commandArgs(), value = TRUE)))
source(file.path(here, "design.R"))
folder <- arguments[1]
dir.create(file.path(folder, "hypotheses"), showWarnings = FALSE)
test <- function(statistic, df, df_residual) {
  p <- if (is.null(df_residual)) pchisq(statistic, df, lower.tail = FALSE) else pf(statistic, df, df_residual, lower.tail = FALSE)
  list(statistic = as.numeric(statistic), df = df, df_residual = df_residual, p_value = as.numeric(p))
}
tight <- glm.control(epsilon = 1e-15, maxit = 200)

fitted_to <- function(case) {
  d <- design(case, folder)
  w <- if (is.null(d$weights)) rep(1, d$n) else d$weights
  o <- if (is.null(d$offset)) rep(0, d$n) else d$offset
  x <- if (case$intercept) d$x[, -1, drop = FALSE] else d$x
  frame <- data.frame(y = d$y, x, w = w, o = o, check.names = FALSE)
  terms <- paste0("`", colnames(x), "`", collapse = " + ")
  formula <- as.formula(paste("y ~", terms, if (case$intercept) "" else "- 1"))
  environment(formula) <- environment()
  if (case$family == "gaussian") lm(formula, frame, weights = w, offset = o)
  else suppressWarnings(glm(formula, get(case$family)(), frame, weights = w, offset = o, control = tight))
}

# R's own covariance of a glm uses the weights of the last iteration but one.
at_solution <- function(fit) {
  if (!inherits(fit, "glm")) return(vcov(fit))
  weights <- fit$prior.weights * fit$family$mu.eta(fit$linear.predictors)^2 / fit$family$variance(fit$fitted.values)
  x <- model.matrix(fit)
  v <- chol2inv(qr.R(qr(x * sqrt(weights), tol = 0)))
  dimnames(v) <- list(colnames(x), colnames(x))
  v
}

one <- function(name) {
  case <- fromJSON(file.path(folder, "glm", paste0(name, ".json")), simplifyVector = FALSE)
  less <- case
  less$alice <- case$alice[-length(case$alice)]; less$bob <- case$bob[-length(case$bob)]
  large <- fitted_to(case); small <- fitted_to(less)
  gaussian <- case$family == "gaussian"
  compared <- if (gaussian) anova(small, large, test = "F") else anova(small, large, test = "LRT")
  df <- compared$Df[2]
  ratio <- 2 * as.numeric(logLik(large) - logLik(small))
  if (!gaussian) stopifnot(isTRUE(all.equal(ratio, compared$Deviance[2], tolerance = 1e-8)))
  terms <- setdiff(names(coef(large)), "(Intercept)")[1:2]
  sets <- list(
    paste0(terms[1], " - 2*", terms[2], " = 0.1"),
    c(paste0(terms[1], " = 0"), paste0("3*", terms[2], " = 1")),
    if (case$intercept) paste0("(Intercept) + 0.5*", terms[1], " = 1") else paste0(terms[1], " + ", terms[2], " = 2")
  )
  linear <- lapply(sets, function(set) {
    found <- linearHypothesis(large, set, vcov. = at_solution(large), test = if (gaussian) "F" else "Chisq")
    statistic <- found[[if (gaussian) "F" else "Chisq"]][2]
    list(hypotheses = as.list(set), test = test(statistic, found$Df[2], if (gaussian) large$df.residual))
  })
  # About terms of both parties, for reports that have covariances across.
  slopes <- setdiff(names(coef(large)), "(Intercept)")
  ends <- c(slopes[1], slopes[length(slopes)])
  across <- lapply(list(paste0(ends[1], " - 0.5*", ends[2], " = 0.1"), c(paste0(ends[1], " = 0"), paste0(ends[2], " = 0"))), function(set) {
    found <- linearHypothesis(large, set, vcov. = at_solution(large), test = if (gaussian) "F" else "Chisq")
    statistic <- found[[if (gaussian) "F" else "Chisq"]][2]
    list(hypotheses = as.list(set), test = test(statistic, found$Df[2], if (gaussian) large$df.residual))
  })
  out <- list(
    name = name, generator = "make/hypotheses.R",
    versions = list(R = paste(R.version$major, R.version$minor, sep = "."), car = as.character(packageVersion("car"))),
    smaller = list(alice = less$alice, bob = less$bob),
    f = if (gaussian) test(compared$F[2], df, large$df.residual),
    likelihood_ratio = test(ratio, df, NULL), linear = linear, across = across
  )
  write(toJSON(out, auto_unbox = TRUE, null = "null", digits = I(17), pretty = 1), file.path(folder, "hypotheses", paste0(name, ".json")))
}
for (name in c("gaussian_diabetes", "gaussian_diabetes_no_intercept", "gaussian_categorical", "gaussian_weights_offset", "binomial_admissions",
  "binomial_offset", "binomial_frequency_weights", "poisson_admissions", "poisson_weights_offset")) one(name)
