# What model.matrix says about formulas with functions: names of columns and their values; and fits of such formulas with scores.
#
#     Rscript formulas.R OUTPUT_FOLDER
#
# The table is made here too, and written to OUTPUT_FOLDER as table.csv and fresh.csv. New rows are encoded with the terms of the fit, as predict does.
library(jsonlite)
library(splines)

folder <- commandArgs(TRUE)[1]
set.seed(20261123)
n <- 60
table <- data.frame(
  x = round(exp(rnorm(n, 1, 0.6)), 3),
  z = round(rnorm(n, 0, 2), 2),
  k = sample(1:4, n, TRUE),
  age = sample(20:80, n, TRUE),
  g = sample(c("a", "b", "c"), n, TRUE),
  `a b` = round(runif(n, 1, 9), 1),
  check.names = FALSE
)
fresh <- data.frame(
  x = c(0.5, 2.25, 30), z = c(-9, 0.5, 9.5), k = c(1, 4, 2), age = c(18, 50, 95), g = c("b", "a", "c"), `a b` = c(1, 5.5, 12),
  check.names = FALSE
)

formulas <- c(
  "~ log(x)", "~ log2(x)", "~ log10(x)", "~ log1p(x)", "~ exp(z)", "~ sqrt(x)", "~ log(x, 2)", "~ log(x, base = 10)",
  "~ I(z^2)", "~ I(x * z)", "~ I(x/z)", "~ I(-z^2 + 3)", "~ I((x + z)^2/2)", "~ I(x^-1)", "~ I(x^0.5)", "~ I(2^z)", "~ I(1e-05 * age)",
  "~ I(age - 50)", "~ log(x + 1)", "~ sqrt(log1p(x))", "~ exp(-z/2)", "~ log(`a b`)", "~ I(100000 * x)", "~ I(0.1 * x)",
  "~ x + log(x)", "~ log(x):z", "~ log(x) * z", "~ log(x) * g", "~ (x + z + age)^2", "~ (log(x) + g)^2", "~ g:I(z^2)", "~ g + g:log(x)",
  "~ poly(x, 2)", "~ poly(x, 3)", "~ poly(x, degree = 2, raw = TRUE)", "~ poly(age, 4)", "~ poly(log(x), 2)", "~ poly(x, 2):z",
  "~ poly(x, 2) * g", "~ poly(z, 1)",
  "~ factor(k)", "~ factor(k, levels = c(4, 1, 2, 3))", "~ factor(g, levels = c(\"c\", \"a\", \"b\"))", "~ factor(k) * z", "~ 0 + factor(k)",
  "~ factor(k) + g", "~ factor(k):log(x)",
  "~ cut(age, c(0, 40, 60, 120))", "~ cut(age, breaks = c(0, 40, 60, 120), right = FALSE)",
  "~ cut(z, c(-Inf, 0, Inf), labels = c(\"low\", \"high\"))", "~ cut(x, c(0, 1.25, 3.125, 100))", "~ cut(age, c(18, 50, 95), include.lowest = TRUE)",
  "~ scale(age, center = 50, scale = 10)", "~ scale(age)", "~ scale(x, scale = FALSE)", "~ scale(x, center = FALSE)",
  "~ bs(x, knots = c(2, 4), Boundary.knots = c(0, 40))", "~ bs(x, df = 5)", "~ bs(age, degree = 2, df = 4)", "~ bs(z, df = 6, intercept = TRUE)",
  "~ ns(x, knots = c(2, 4), Boundary.knots = c(0, 20))", "~ ns(x, df = 3)", "~ ns(age, df = 4)", "~ ns(z, df = 3, intercept = TRUE)", "~ ns(log(x), df = 2)",
  "~ ns(x, 2) * z", "~ ns(age, knots = 50)",
  "~ .", "~ . - 1", "~ z + .", "~ factor(k) * g", "~ factor(k):g", "~ g:factor(k)", "~ 0 + g * factor(k)", "~ g * cut(age, c(0, 40, 60, 120))",
  "~ factor(k):z - 1", "~ poly(`a b`, 2)", "~ I(`a b`^2) * z", "~ scale(`a b`) + ns(`a b`, df = 3)", "~ `a b`:g + I(`a b`/x)", "~ x + offset(z)"
)

matrix_of <- function(formula, frame) suppressWarnings(model.matrix(formula, frame))
cases <- lapply(formulas, function(text) {
  formula <- as.formula(text)
  frame <- model.frame(formula, table)
  made <- matrix_of(formula, frame)
  again <- suppressWarnings(model.frame(terms(frame), fresh, xlev = .getXlevels(terms(frame), frame), na.action = na.pass))
  new <- suppressWarnings(model.matrix(terms(frame), again))
  keep <- colnames(made) != "(Intercept)"
  list(
    formula = text, columns = gsub("`", "", colnames(made)[keep]),
    values = unname(made[, keep, drop = FALSE]), fresh = unname(new[, keep, drop = FALSE])
  )
})
# Fits of the same table, each party with a formula of its own.
table$y <- round(2 * log(table$x) + 0.1 * table$z^2 + 0.03 * table$age + (table$g == "b") + rnorm(n, 0, 0.5), 3)
table$event <- as.integer(runif(n) < plogis(log(table$x) - 0.4 * table$z - 1))
fits <- lapply(list(
  list(family = "gaussian", outcome = "y", alice = "~ log(x) * g + poly(z, 2)", bob = "~ ns(age, df = 3) + factor(k)"),
  list(family = "binomial", outcome = "event", alice = "~ poly(log(x), 2) + cut(age, c(0, 45, 120))", bob = "~ scale(z) + sqrt(`a b`)"),
  list(family = "gaussian", outcome = "y", alice = "~ 0 + g + log(x) + offset(z)", bob = "~ factor(k) + age")
), function(case) {
  formula <- as.formula(paste(case$outcome, "~", sub("~", "", case$alice), "+", sub("~", "", case$bob)))
  fit <- glm(formula, case$family, table, control = glm.control(epsilon = 1e-15, maxit = 100))
  c(case, list(terms = gsub("^`|`$", "", names(coef(fit))), estimates = unname(coef(fit)),
               link = unname(suppressWarnings(predict(fit, fresh)))))
})
write.csv(table, file.path(folder, "table.csv"), row.names = FALSE, quote = FALSE)
write.csv(fresh, file.path(folder, "fresh.csv"), row.names = FALSE, quote = FALSE)
version <- paste("R", getRversion(), "splines", packageVersion("splines"))
write_json(list(generator = "make/formulas.R", versions = version, table = table[setdiff(names(table), c("y", "event"))], fresh = fresh, cases = cases, fits = fits),
           file.path(folder, "formulas.json"), digits = 17, auto_unbox = TRUE, dataframe = "columns", matrix = "columnmajor")
cat(length(formulas), "formulas\n")
