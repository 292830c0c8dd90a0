# Rscript refit.R VECTORS_FOLDER: sub-models of the gaussian fits of `glm/`, into `refit/`. Needs jsonlite and glmnet.
#
# A sub-model leaves columns out, and has no column that its party's fit had set aside within its own block: that one is not in the table which
# sub-models follow from. Of what depends across the parties the later column goes, as in R.
suppressPackageStartupMessages({ library(jsonlite); library(glmnet) })
Sys.setlocale("LC_ALL", "C.UTF-8") |> invisible()
arguments <- commandArgs(trailingOnly = TRUE)
here <- dirname(sub("--file=", "", grep("--file=", commandArgs(), value = TRUE)))
source(file.path(here, "design.R"))
folder <- arguments[1]
glmnet.control(fdev = 0, devmax = 1)

# Names of columns that depend on earlier ones.
dependent <- function(x) {
  found <- qr(sweep(x, 2, pmax(sqrt(colSums(x^2)), 1e-300), "/"), tol = 1e-7)
  if (found$rank == ncol(x)) character() else colnames(x)[sort(found$pivot[(found$rank + 1):ncol(x)])]
}

# The rows that count: their outcome, weights, offset and columns, and the term and party of each column.
rows_of <- function(case) {
  d <- design(case, folder)
  case$aliased <- NULL
  rows <- counted(case, d)
  columns <- c(unlist(case$alice), unlist(case$bob))
  frame <- read_table(file.path(folder, case$data), used_by(case))
  width <- sapply(columns, function(name) if (is.factor(frame[[name]])) nlevels(frame[[name]]) - 1 else 1)
  x <- if (case$intercept) rows$x[, -1, drop = FALSE] else rows$x
  c(rows, list(
    slopes = x, term = rep(columns, width), all = d$n,
    party = rep(ifelse(columns %in% unlist(case$alice), "alice", "bob"), width)
  ))
}

intercepted <- function(case, x) if (case$intercept) cbind("(Intercept)" = 1, x) else x

sub_model <- function(case, rows, within, drop) {
  stays <- !(rows$term %in% drop)
  names <- colnames(rows$slopes)[stays]
  there <- stays & !(colnames(rows$slopes) %in% within)
  x <- intercepted(case, rows$slopes[, there, drop = FALSE])
  term <- c(if (case$intercept) "", rows$term[there])
  w <- rows$w; y <- rows$y - rows$o; n <- rows$n
  across <- dependent(x * sqrt(w))
  term <- term[!(colnames(x) %in% across)]
  x <- x[, !(colnames(x) %in% across), drop = FALSE]
  # Columns of very different sizes are brought to one before they are factored.
  size <- sqrt(colSums(w * x^2))
  factor <- qr(sweep(x * sqrt(w), 2, size, "/"), tol = 0, LAPACK = FALSE)
  beta <- qr.coef(factor, y * sqrt(w)) / size
  # Once more on what is left: the digits that the first solve has lost.
  beta <- beta + qr.coef(factor, (y - drop(x %*% beta)) * sqrt(w)) / size
  rank <- ncol(x); df <- n - rank
  deviance <- sum(w * (y - drop(x %*% beta))^2)
  mean <- if (case$intercept) sum(w * y) / sum(w) else 0
  null <- sum(w * (y - mean)^2)
  v <- deviance / df * chol2inv(qr.R(factor)) / outer(size, size)
  dimnames(v) <- list(colnames(x), colnames(x))
  error <- sqrt(diag(v))
  zeros <- any(counted_out(case))
  log_lik <- if (zeros) NA else -0.5 * (n * (log(2 * pi * deviance / n) + 1) - sum(log(w)))
  explained <- rank - as.integer(case$intercept)
  f <- if (explained > 0) (null - deviance) / explained / (deviance / df)
  slopes <- if (case$intercept) v[-1, -1, drop = FALSE] else v
  of <- if (case$intercept) term[-1] else term
  correlation <- cov2cor(slopes)
  gvif <- function(at) {
    if (length(at) == length(of)) return(1)
    det(correlation[at, at, drop = FALSE]) * det(correlation[-at, -at, drop = FALSE]) / det(correlation)
  }
  wald <- function(name) {
    at <- which(term == name)
    statistic <- drop(t(beta[at]) %*% solve(v[at, at, drop = FALSE], beta[at], tol = 0)) / length(at)
    list(statistic = full(statistic), df = length(at), df_residual = df, p_value = full(pf(statistic, length(at), df, lower.tail = FALSE)))
  }
  if (length(w) && all(rows$o == 0) && explained > 0 && !("ill_conditioned" %in% unlist(case$tags)) && !("unscaled" %in% unlist(case$tags))) {
    fit <- lm(if (case$intercept) y ~ x[, -1] else y ~ x - 1, weights = w)
    stopifnot(isTRUE(all.equal(unname(coef(fit)), unname(beta), tolerance = 1e-9)))
    stopifnot(isTRUE(all.equal(unname(summary(fit)$coefficients[, 2]), unname(error), tolerance = 1e-9)))
    if (!zeros) stopifnot(isTRUE(all.equal(as.numeric(logLik(fit)), log_lik, tolerance = 1e-10)))
  }
  row <- function(name) {
    at <- match(name, colnames(x))
    if (is.na(at)) return(list(term = name, estimate = NULL, std_error = NULL, p_value = NULL))
    p <- 2 * pt(-abs(beta[[at]] / error[[at]]), df)
    list(term = name, estimate = full(beta[[at]]), std_error = full(error[[at]]), p_value = full(p))
  }
  list(
    drop = I(as.character(drop)), coefficients = lapply(c(if (case$intercept) "(Intercept)", names), row),
    nobs = n, df_residual = df, df_null = n - as.integer(case$intercept), deviance = full(deviance), null_deviance = full(null),
    log_lik = full(log_lik), aic = full(-2 * log_lik + 2 * (rank + 1)), bic = full(-2 * log_lik + log(rows$all) * (rank + 1)),
    r_squared = full(1 - deviance / null),
    adj_r_squared = full(1 - deviance / df / (null / (n - as.integer(case$intercept)))),
    f_test = if (explained > 0) list(statistic = full(f), df = explained, df_residual = df, p_value = full(pf(f, explained, df, lower.tail = FALSE))),
    covariance = list(terms = I(colnames(x)), matrix = lapply(seq_len(rank), function(i) I(full(unname(v[i, ]))))),
    term_tests = lapply(unique(of), function(name) {
      at <- which(of == name)
      list(term = name, df = length(at), wald = wald(name), vif = full(gvif(at)), scaled_vif = full(gvif(at)^(1 / (2 * length(at)))))
    })
  )
}

counted_out <- function(case) {
  w <- design(case, folder)$weights
  if (is.null(w)) FALSE else w == 0
}

# glmnet at given weights of a penalty: lasso, elastic net and ridge.
penalised <- function(case, rows, within, drop, alpha) {
  stays <- !(rows$term %in% drop) & !(colnames(rows$slopes) %in% within)
  x <- rows$slopes[, stays, drop = FALSE]
  y <- rows$y - rows$o
  v <- rows$w / sum(rows$w)
  centre <- if (case$intercept) colSums(v * x) else 0
  unit <- sqrt(colSums(v * x^2) - colSums(v * x)^2)
  largest <- max(abs(colSums(v * (y - if (case$intercept) sum(v * y) else 0) * x)) / unit)
  lambda <- largest / max(alpha, 0.5) * c(0.7, 0.2, 0.05, 0.01)
  fit <- glmnet(x, rows$y, weights = rows$w, offset = rows$o, alpha = alpha, lambda = lambda, intercept = case$intercept,
    standardize = TRUE, thresh = 1e-22, maxit = 1e7)
  list(
    drop = I(as.character(drop)), alpha = alpha, lambda = full(lambda), terms = I(colnames(x)),
    path = lapply(seq_along(lambda), function(k) list(
      intercept = if (case$intercept) full(fit$a0[[k]]), coefficients = I(full(unname(fit$beta[, k]))),
      deviance = full(fit$nulldev * (1 - fit$dev.ratio[k]))
    ))
  )
}

one <- function(file) {
  case <- fromJSON(file, simplifyVector = FALSE)
  if (case$family != "gaussian" || "fewer_rows_than_columns" %in% unlist(case$tags)) return(NULL)
  rows <- rows_of(case)
  own <- function(party) intercepted(case, rows$slopes[, rows$party == party, drop = FALSE])
  within <- unlist(lapply(c("alice", "bob"), function(party) dependent(own(party) * sqrt(rows$w))))
  alice <- unlist(case$alice); bob <- unlist(case$bob); columns <- c(alice, bob)
  drops <- unique(list(
    character(), alice[1], bob[length(bob)], columns[seq_along(columns) %% 2 == 0], columns[seq_along(columns) %% 3 != 1], bob,
    alice[-1], columns[-length(columns)]
  ))
  drops <- Filter(function(drop) any(!(rows$term %in% drop) & !(colnames(rows$slopes) %in% within)), drops)
  models <- lapply(drops, function(drop) sub_model(case, rows, within, drop))
  # Coordinate descent has too few digits where columns nearly depend on each other.
  well <- !any(c("ill_conditioned", "unscaled", "collinear", "constant") %in% unlist(case$tags))
  several <- Filter(function(drop) sum(!(rows$term %in% drop)) > 1, drops)
  paths <- if (well) mapply(function(drop, alpha) penalised(case, rows, within, drop, alpha), several, rep_len(c(1, 0.5, 0), length(several)), SIMPLIFY = FALSE)
  list(name = case$name, generator = "make/refit.R",
    versions = list(R = paste(R.version$major, R.version$minor, sep = "."), glmnet = as.character(packageVersion("glmnet"))),
    models = models, penalised = if (is.null(paths)) list() else unname(paths))
}

put <- function(value, path) {
  text <- toJSON(value, auto_unbox = TRUE, na = "null", null = "null", digits = I(17))
  text <- gsub('"(-?[0-9]+([.][0-9]+)?(e[-+][0-9]+)?)"', "\\1", text)
  text <- gsub(',"(models|penalised|covariance|term_tests|path|f_test)":', ',\n "\\1":', text)
  text <- gsub('},{', '},\n  {', gsub('],[', '],\n  [', text, fixed = TRUE), fixed = TRUE)
  writeLines(text, path)
}
unlink(Sys.glob(file.path(folder, "refit", "*.json")))
dir.create(file.path(folder, "refit"), showWarnings = FALSE)
for (file in Sys.glob(file.path(folder, "glm", "gaussian_*.json"))) {
  out <- one(file)
  if (!is.null(out)) put(out, file.path(folder, "refit", basename(file)))
}

# Parts of noised tables of two parties with 3 and 2 entries a row, into `privacy/sub_tables.json`: the solution, and what each kind of noise adds
# to its covariance at variance 1, entry by entry. Of a party's own symmetric table an entry off the diagonal has half the variance.
noised <- function() {
  joint <- matrix(c(60, 4, -7, 3, 9, 4, 45, 11, -6, 2, -7, 11, 52, 8, -5, 3, -6, 8, 38, 10, 9, 2, -5, 10, 41), 5)
  score <- c(12, -20, 7, 15, -9); square <- 33; rows <- 100
  party <- c(1, 1, 1, 2, 2)
  one <- function(entries) {
    sub <- joint[entries, entries, drop = FALSE]; inverse <- solve(sub); beta <- drop(inverse %*% score[entries])
    k <- length(entries); of <- party[entries]
    moved <- function(i, j) { n <- matrix(0, k, k); n[i, j] <- 1; n[j, i] <- 1; drop(inverse %*% n %*% beta) }
    sum_of <- function(keep, weight) {
      total <- matrix(0, k, k)
      for (i in seq_len(k)) for (j in i:k) if (keep(i, j)) { v <- moved(i, j); total <- total + weight(i, j) * v %*% t(v) }
      total
    }
    own <- function(p) sum_of(function(i, j) of[i] == p && of[j] == p, function(i, j) if (i == j) 1 else 0.5)
    scored <- function(p) inverse %*% diag(as.numeric(of == p), k) %*% inverse
    rest <- square - 2 * sum(beta * score[entries]) + drop(t(beta) %*% sub %*% beta)
    list(entries = I(entries - 1), coefficients = I(full(beta)), sampling = I(full(c(inverse * rest / rows))),
      tables = list(I(full(c(own(1)))), I(full(c(own(2))))), scores = list(I(full(c(scored(1)))), I(full(c(scored(2))))),
      across = I(full(c(sum_of(function(i, j) of[i] != of[j], function(i, j) 1)))))
  }
  list(generator = "make/refit.R", rows = rows, joint = I(c(joint)), score = I(score), square = square,
    parts = lapply(list(1:5, c(1, 3, 5), c(1, 2), c(1, 4, 5), c(2, 4)), one))
}
put(noised(), file.path(folder, "privacy", "sub_tables.json"))
