# Rscript statistics.R VECTORS_FOLDER: what follows from the fits of `glm/`, into `statistics/`, and discrimination and calibration
# of given predictors, into `performance/`. Needs jsonlite, pROC and car.
#
# Fits are tight and without the columns that `glm/` names as dependent. R's covariance uses the weights of the last iteration but one, so it
# is taken at the solution here; car confirms tests and inflation to the digits that it has.
suppressPackageStartupMessages({ library(jsonlite); library(pROC); library(car) })
Sys.setlocale("LC_ALL", "C.UTF-8") |> invisible()
arguments <- commandArgs(trailingOnly = TRUE)
here <- dirname(sub("--file=", "", grep("--file=", commandArgs(), value = TRUE)))
source(file.path(here, "design.R"))
folder <- arguments[1]
near <- function(a, b, tolerance) stopifnot(isTRUE(all.equal(unname(a), unname(b), tolerance = tolerance)))
test <- function(statistic, df, df_residual) {
  p <- if (is.null(df_residual)) pchisq(statistic, df, lower.tail = FALSE) else pf(statistic, df, df_residual, lower.tail = FALSE)
  list(statistic = full(statistic), df = df, df_residual = df_residual, p_value = full(p))
}

# ResourceSelection::hoslem.test(y, p, g = 10), written from its definition; degrees of freedom by the groups that there are.
hosmer_lemeshow <- function(y, p) {
  group <- cut(p, unique(quantile(p, seq(0, 1, 1 / 10))), include.lowest = TRUE)
  observed <- cbind(tapply(1 - y, group, sum), tapply(y, group, sum))
  expected <- cbind(tapply(1 - p, group, sum), tapply(p, group, sum))
  groups <- nrow(observed)
  list(
    test = if (groups < 3) NULL else test(sum((observed - expected)^2 / expected), groups - 2, NULL),
    rows = rowSums(observed), observed = observed[, 2], expected = expected[, 2]
  )
}

# Groups of fewer than 5 rows are joined to the next, the last to the one before.
join <- function(groups) {
  out <- list(); open <- c(0, 0, 0)
  for (i in seq_along(groups$rows)) {
    open <- open + c(groups$rows[i], groups$observed[i], groups$expected[i])
    if (open[1] >= 5) { out[[length(out) + 1]] <- open; open <- c(0, 0, 0) }
  }
  if (length(out)) out[[length(out)]] <- out[[length(out)]] + open
  lapply(out, function(g) list(rows = g[1], observed = g[2], expected = full(g[3])))
}

# Points of the curve that pROC draws, at steps of at least 5 rows and a hundredth of all.
curve <- function(y, eta) {
  if (length(unique(y)) < 2) return(list())
  scores <- sort(unique(eta), decreasing = TRUE)
  r <- roc(y, eta, direction = "<", levels = c(0, 1), quiet = TRUE)
  all <- coords(r, c(Inf, sapply(seq_along(scores), function(i) if (i == length(scores)) -Inf else (scores[i] + scores[i + 1]) / 2)),
    ret = c("1-specificity", "sensitivity"), transpose = FALSE)
  rows <- sapply(scores, function(s) sum(eta == s))
  step <- max(5, ceiling(length(y) / 100))
  keep <- 1; open <- 0; left <- length(y)
  for (i in seq_along(scores)) {
    open <- open + rows[i]; left <- left - rows[i]
    if (open >= step && (left == 0 || left >= 5)) { keep <- c(keep, i + 1); open <- 0 }
  }
  if (open > 0) keep <- c(keep, length(scores) + 1)
  lapply(keep, function(i) list(false_positive = full(all[i, 1]), true_positive = full(all[i, 2])))
}

performance <- function(y, eta) {
  p <- plogis(eta)
  hl <- hosmer_lemeshow(y, p)
  out <- list(events = sum(y), auc = NULL, auc_std_error = NULL, auc_low = NULL, auc_high = NULL, brier = full(mean((y - p)^2)))
  if (length(unique(y)) == 2) {
    r <- roc(y, eta, direction = "<", levels = c(0, 1), quiet = TRUE)
    out$auc <- full(as.numeric(auc(r)))
    if (min(table(y)) > 1) {
      ends <- suppressWarnings(as.numeric(ci.auc(r, method = "delong")))
      out$auc_std_error <- full(sqrt(var(r, method = "delong"))); out$auc_low <- full(ends[1]); out$auc_high <- full(ends[3])
    }
  }
  out$hosmer_lemeshow <- hl$test
  fit <- suppressWarnings(glm(y ~ eta, family = binomial, control = glm.control(epsilon = 1e-15, maxit = 200)))
  sound <- fit$converged && !anyNA(coef(fit)) && max(abs(coef(fit))) < 15
  out$calibration_intercept <- if (sound) full(coef(fit)[[1]])
  out$calibration_slope <- if (sound) full(coef(fit)[[2]])
  out$deciles <- join(hl); out$roc <- curve(y, eta)
  out
}

one <- function(file) {
  case <- fromJSON(file, simplifyVector = FALSE)
  if ("fewer_rows_than_columns" %in% unlist(case$tags)) return(NULL)
  d <- design(case, folder)
  rows <- counted(case, d)
  y <- rows$y; n <- rows$n; w <- rows$w; o <- rows$o; x <- rows$x
  aliased <- unlist(case$aliased)
  kept <- !(colnames(d$x) %in% aliased)
  columns <- c(unlist(case$alice), unlist(case$bob))
  frame <- read_table(file.path(folder, case$data), used_by(case))
  width <- sapply(columns, function(name) if (is.factor(frame[[name]])) nlevels(frame[[name]]) - 1 else 1)
  term <- c(if (case$intercept) "", rep(columns, width))[kept]
  family <- get(case$family)()
  tight <- glm.control(epsilon = 1e-15, maxit = 200)
  fit <- suppressWarnings(glm.fit(x, y, w, offset = o, family = family, intercept = case$intercept, control = tight))
  rank <- ncol(x); df <- n - rank
  class(fit) <- c("glm", "lm")
  dispersion <- if (case$family == "gaussian") sum(w * (y - fit$fitted.values)^2) / df else 1
  weights <- w * family$mu.eta(fit$linear.predictors)^2 / family$variance(fit$fitted.values)
  # Columns of very different sizes are brought to one before they are factored.
  size <- sqrt(colSums(weights * x^2))
  inverse <- chol2inv(qr.R(qr(sweep(x * sqrt(weights), 2, size, "/"), tol = 0, LAPACK = FALSE)))
  v <- dispersion * inverse / outer(size, size)
  dimnames(v) <- list(colnames(x), colnames(x))
  gaussian <- case$family == "gaussian"
  wald <- function(at) {
    statistic <- drop(t(fit$coefficients[at]) %*% solve(v[at, at, drop = FALSE], fit$coefficients[at], tol = 0))
    if (gaussian) test(statistic / length(at), length(at), df) else test(statistic, length(at), NULL)
  }
  slopes <- if (case$intercept) v[-1, -1, drop = FALSE] else v
  correlation <- cov2cor(slopes)
  of <- if (case$intercept) term[-1] else term
  gvif <- function(name) {
    at <- which(of == name)
    if (length(at) == length(of)) return(1)
    det(correlation[at, at, drop = FALSE]) * det(correlation[-at, -at, drop = FALSE]) / det(correlation)
  }
  names <- unique(of)
  xs <- if (case$intercept) x[, -1, drop = FALSE] else x
  # summary(lm) of R 4.2 counts an offset as explained; what is explained of the outcome less the offset is compared with the null model here.
  less <- y - o
  model <- suppressWarnings(if (gaussian) lm(if (case$intercept) less ~ xs else less ~ xs - 1, weights = w)
    else glm(if (case$intercept) y ~ xs else y ~ xs - 1, weights = w, offset = o, family = family, control = tight))
  plain <- suppressWarnings(if (gaussian) lm(y ~ ., data.frame(y, xs), weights = w, offset = o) else
    glm(y ~ ., family, data.frame(y, xs), weights = w, offset = o, control = tight))
  if (case$intercept && length(of) > 1 && all(width == 1) && !("ill_conditioned" %in% unlist(case$tags)))
    near(vif(plain), sapply(names, gvif), 1e-6)
  if (case$intercept) for (name in names[table(of)[names] > 1]) {
    at <- which(term == name)
    hypothesis <- diag(rank)[at, , drop = FALSE]
    found <- linearHypothesis(plain, hypothesis, test = if (gaussian) "F" else "Chisq")
    near(found[[if (gaussian) "F" else "Chisq"]][2], as.numeric(wald(at)$statistic), 1e-6)
  }
  null <- suppressWarnings(glm(if (case$intercept) y ~ 1 else y ~ 0, family = family, weights = w, offset = o, control = tight))
  out <- list(name = case$name, generator = "make/statistics.R", versions = list(R = paste(R.version$major, R.version$minor, sep = "."),
    car = as.character(packageVersion("car")), pROC = as.character(packageVersion("pROC"))),
    adj_r_squared = NULL, mcfadden_r_squared = NULL, f_test = NULL, lr_test = NULL)
  if (gaussian) {
    s <- summary(model)
    out$adj_r_squared <- full(s$adj.r.squared)
    out$f_test <- test(s$fstatistic[[1]], s$fstatistic[[2]], s$fstatistic[[3]])
  } else {
    statistic <- null$deviance - fit$deviance
    out$lr_test <- test(statistic, null$df.residual - df, NULL)
    likelihood <- as.numeric(logLik(fit)); of_null <- likelihood - statistic / 2
    # R rounds numbers of trials, and then two likelihoods do not differ by half their deviances.
    if (!("fractional_weights" %in% unlist(case$tags)) && !("proportions" %in% unlist(case$tags))) near(of_null, as.numeric(logLik(null)), 1e-10)
    out$mcfadden_r_squared <- full(1 - likelihood / of_null)
  }
  out$covariance <- list(terms = colnames(x), matrix = lapply(seq_len(rank), function(i) full(unname(v[i, ]))))
  out$term_tests <- lapply(names, function(name) {
    at <- which(term == name)
    list(term = name, df = length(at), wald = wald(at), vif = full(gvif(name)), scaled_vif = full(gvif(name)^(1 / (2 * length(at)))))
  })
  if (case$family == "binomial" && is.null(d$weights) && all(y %in% c(0, 1))) out$performance <- performance(y, fit$linear.predictors)
  out
}

# Numbers stand as text with 17 digits; without the quotes they are numbers.
put <- function(value, path) {
  text <- toJSON(value, auto_unbox = TRUE, na = "null", null = "null", digits = I(17))
  text <- gsub('"(-?[0-9]+([.][0-9]+)?(e[-+][0-9]+)?)"', "\\1", text)
  # A line a field and a line a list of what has fields.
  text <- gsub(',"(covariance|term_tests|performance|deciles|roc|predictor|expected|f_test|lr_test|mcfadden_r_squared|hosmer_lemeshow)":', ',\n "\\1":', text)
  text <- gsub('},{', '},\n  {', gsub('],[', '],\n  [', text, fixed = TRUE), fixed = TRUE)
  writeLines(text, path)
}
unlink(Sys.glob(file.path(folder, c("statistics", "performance"), "*.json")))
for (sub in c("statistics", "performance")) dir.create(file.path(folder, sub), showWarnings = FALSE)
for (file in Sys.glob(file.path(folder, "glm", "*.json"))) {
  out <- one(file)
  if (!is.null(out)) put(out, file.path(folder, "statistics", basename(file)))
}

set.seed(20)
sets <- list(
  miscalibrated = { eta <- rnorm(400); list(y = rbinom(400, 1, plogis(0.6 * eta - 0.8)), eta = eta) },
  ties = { eta <- round(rnorm(137), 0) / 2; list(y = rbinom(137, 1, plogis(eta)), eta = eta) },
  few_rows = { eta <- rnorm(23); list(y = rbinom(23, 1, plogis(eta)), eta = eta) },
  backwards = { eta <- rnorm(60); list(y = rbinom(60, 1, plogis(-eta)), eta = eta) },
  extreme = { eta <- 12 * rnorm(150); list(y = rbinom(150, 1, plogis(eta / 6)), eta = eta) },
  one_event = { eta <- rnorm(40); list(y = as.numeric(seq_len(40) == 17), eta = eta) },
  no_event = { eta <- rnorm(40); list(y = rep(0, 40), eta = eta) },
  one_value = list(y = rep(c(0, 1, 1), 10), eta = rep(0.5, 30)),
  # A tenth of the rows and more share the lowest predictor, or the highest: quantiles coincide there.
  lowest_ties = list(y = rep(rep(c(1, 0), 4), c(2, 9, 5, 5, 3, 7, 8, 2)), eta = rep(c(-1.375, 0.125, -0.5, 0.875), c(11, 10, 10, 10))),
  highest_ties = { eta <- c(seq(-2, 1.25, by = 0.125), rep(1.5, 13)); list(y = as.numeric(seq_along(eta) %% 3 == 0 | eta > 1.3 & seq_along(eta) %% 4 > 0), eta = eta) }
)
for (name in names(sets)) {
  set <- sets[[name]]
  eta <- set$eta
  found <- if (name == "one_value") list(events = sum(set$y), auc = 0.5, auc_std_error = 0, auc_low = 0.5, auc_high = 0.5,
    brier = full(mean((set$y - plogis(eta))^2)), hosmer_lemeshow = NULL, calibration_intercept = NULL, calibration_slope = NULL,
    deciles = list(list(rows = 30, observed = 20, expected = full(30 * plogis(0.5)))),
    roc = list(list(false_positive = 0, true_positive = 0), list(false_positive = 1, true_positive = 1))) else performance(set$y, eta)
  put(list(name = name, generator = "make/statistics.R", y = set$y, predictor = full(eta), expected = found), file.path(folder, "performance", paste0(name, ".json")))
}
