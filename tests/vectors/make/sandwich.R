# Rscript sandwich.R VECTORS_FOLDER: standard errors from residuals of the fits of `glm/`, into `sandwich/`, by `vcovHC` of the package
# sandwich; needs jsonlite.
#
# Fits are tight and without the columns that `glm/` names as dependent. Columns are brought to one size before the fit and errors back to
# theirs after it, so that the factorisations inside see no difference in size.
suppressPackageStartupMessages({ library(jsonlite); library(sandwich) })
Sys.setlocale("LC_ALL", "C.UTF-8") |> invisible()
arguments <- commandArgs(trailingOnly = TRUE)
here <- dirname(sub("--file=", "", grep("--file=", commandArgs(), value = TRUE)))
source(file.path(here, "design.R"))
folder <- arguments[1]
kinds <- c("HC0", "HC1", "HC2", "HC3")

one <- function(file) {
  case <- fromJSON(file, simplifyVector = FALSE)
  if ("fewer_rows_than_columns" %in% unlist(case$tags)) return(NULL)
  d <- design(case, folder)
  rows <- counted(case, d)
  y <- rows$y; n <- rows$n; w <- rows$w; o <- rows$o; x <- rows$x
  terms <- colnames(x)
  # An intercept takes the means out, which changes no slope; its own error needs the columns as they are.
  centre <- if (case$intercept) c(0, colMeans(x[, -1, drop = FALSE])) else rep(0, ncol(x))
  z <- sweep(x, 2, centre)
  size <- sqrt(colMeans(z^2))
  z <- sweep(z, 2, size, "/")
  tight <- glm.control(epsilon = 1e-15, maxit = 200)
  of_start <- function(start) suppressWarnings(glm(y ~ z - 1, family = case$family, weights = w, offset = o, start = start, control = tight))
  # The weights inside are those of the last iteration but one; a fit that starts at the solution ends with those of the solution.
  fit <- if (case$family == "gaussian") lm(y ~ z - 1, weights = w, offset = o) else of_start(coef(of_start(NULL)))
  stopifnot(!anyNA(coef(fit)))
  back <- diag(1 / size, ncol(x))
  if (case$intercept) back[1, ] <- back[1, ] - c(0, centre[-1] / size[-1])
  covariance <- function(kind) unname(back %*% vcovHC(fit, type = kind) %*% t(back))
  error <- function(kind) full(sqrt(diag(covariance(kind))))
  # Where one row alone decides a coefficient, what is left of its residual is rounding.
  alone <- max(hatvalues(fit)) > 1 - 1e-10
  errors <- lapply(setNames(kinds, kinds), function(kind) if (alone && kind %in% c("HC2", "HC3")) NULL else error(kind))
  versions <- list(R = paste(R.version$major, R.version$minor, sep = "."), sandwich = as.character(packageVersion("sandwich")))
  list(name = case$name, generator = "make/sandwich.R", versions = versions, terms = terms, std_errors = errors,
    covariance_hc1 = lapply(seq_along(terms), function(i) full(covariance("HC1")[i, ])))
}

unlink(Sys.glob(file.path(folder, "sandwich", "*.json")))
dir.create(file.path(folder, "sandwich"), showWarnings = FALSE)
for (file in Sys.glob(file.path(folder, "glm", "*.json"))) {
  out <- one(file)
  if (is.null(out)) next
  text <- toJSON(out, auto_unbox = TRUE, na = "null", null = "null", digits = I(17))
  text <- gsub('"(-?[0-9]+([.][0-9]+)?(e[-+][0-9]+)?)"', "\\1", text)
  # Versions stay text.
  text <- gsub('"R":([0-9.]+)', '"R":"\\1"', gsub('"sandwich":([0-9.]+)', '"sandwich":"\\1"', text))
  writeLines(gsub(',"(terms|std_errors|HC[123]|covariance_hc1)":', ',\n "\\1":', text), file.path(folder, "sandwich", basename(file)))
}
