# Methods of a fitted model. What the report does not hold is NA, or a condition that says why.

#' @importFrom stats coef confint family fitted formula gaussian logLik nobs predict residuals vcov weights
NULL

#' Methods for the result of a federated fit
#'
#' The usual questions to a fitted model, answered from its report.
#'
#' - `coef`, `nobs`, `deviance` and `df.residual` are those of [stats::glm()].
#' - `vcov` has each party's block of the covariance matrix. Covariances between coefficients of different parties are `NA` unless
#'   the study shares them; in sealed mode so are those of the intercept, to which both contribute. Variances are the squares of the
#'   standard errors.
#' - `confint` has Wald intervals, by the t distribution where the dispersion is estimated, as `confint` of a linear model and
#'   [stats::confint.default()] have them, and not the profile intervals of `confint` of a `glm`.
#' - `logLik` carries the degrees of freedom, so that `AIC` and `BIC` are those of `glm`. It is `NA` where the report has none: of
#'   penalised and private fits.
#' - `formula` needs the result of [fed_glm()], as a report does not hold the formula.
#' - `fitted`, `residuals` and `weights` need the rows, and so the result of [fed_glm()]. [augment()][augment.fedreg] with `data` computes them
#'   for the report of a party that holds all columns.
#' - `plot` is refused: the programs write a page with plots, `report.html`.
#' - `summary` prints what `summary` of a `glm` prints, with the holder of each coefficient, then how the fit ended, what left
#'   each party, and notes. Its `coefficients` are a matrix as that of `summary.glm`.
#'
#' @param object,x an object of class `fedreg`, from [fed_glm()] or [read_fedreg()].
#' @param digits digits to print.
#' @param complete whether coefficients without an estimate have a row.
#' @param parm names or numbers of coefficients; all by default.
#' @param level confidence level.
#' @param type type of residuals.
#' @param signif.stars whether stars are printed beside p-values.
#' @param ... not used.
#' @name fedreg-methods
#' @examples
#' fit <- read_fedreg(system.file("extdata", "alice", package = "fedreg"))
#' summary(fit)
#' confint(fit, level = 0.9)
#' AIC(fit)
NULL

#' @rdname fedreg-methods
#' @export
coef.fedreg <- function(object, complete = TRUE, ...) {
    if (complete) object$coefficients else object$coefficients[!is.na(object$coefficients)]
}

#' @rdname fedreg-methods
#' @export
vcov.fedreg <- function(object, complete = TRUE, ...) {
    table <- object$table
    labels <- labels_of(table)
    matrix <- matrix(NA_real_, nrow(table), nrow(table), dimnames = list(labels, labels))
    diag(matrix) <- table$std.error^2
    known <- object$report$covariance
    if (!is.null(known)) {
        at <- match(paste(unlist(known$parties), unlist(known$terms)), paste(table$party, table$term))
        matrix[at, at] <- do.call(rbind, lapply(known$matrix, function(row) vapply(row, one, NA_real_)))
    } else if (all(is.na(table$std.error))) {
        warn_missing(object, "no covariances", "the report has no standard errors")
    }
    if (complete) matrix else matrix[!is.na(table$estimate), !is.na(table$estimate), drop = FALSE]
}

# Notes of the report that explain why a statistic is missing, and otherwise what can be said in general.
missing_reason <- function(object, otherwise) {
    if (isTRUE(object$report$caution$inference_withheld)) {
        return(paste0(object$report$caution$banner, ", and p-values and intervals are withheld"))
    }
    notes <- grep("standard errors|estimates only", unlist(object$report$notes), value = TRUE)
    if (length(notes)) paste(notes, collapse = "; ") else otherwise
}

warn_missing <- function(object, what, otherwise) {
    warning(what, ": ", missing_reason(object, otherwise), call. = FALSE)
}

# The distribution that the report's own intervals follow, t or normal: found from them, so that intervals of other levels agree.
interval_quantile <- function(object) {
    table <- object$table
    half <- (table$conf.high - table$estimate) / table$std.error
    half <- half[is.finite(half)]
    if (!length(half)) return(NULL)
    close <- function(value) is.finite(value) && max(abs(half - value)) < 1e-6
    df <- object$df.residual
    if (!is.na(df) && close(stats::qt(0.975, df))) return(function(p) stats::qt(p, df))
    if (close(stats::qnorm(0.975))) return(stats::qnorm)
    NULL
}

#' @rdname fedreg-methods
#' @export
confint.fedreg <- function(object, parm, level = 0.95, ...) {
    if (!is.numeric(level) || length(level) != 1 || is.na(level) || level <= 0 || level >= 1) refuse("`level` is to be between 0 and 1")
    table <- object$table
    tails <- c((1 - level) / 2, 1 - (1 - level) / 2)
    ends <- matrix(NA_real_, nrow(table), 2, dimnames = list(labels_of(table), percent(tails)))
    if (isTRUE(all.equal(level, 0.95))) {
        ends[] <- c(table$conf.low, table$conf.high)
    } else {
        quantile <- interval_quantile(object)
        if (!is.null(quantile)) ends[] <- table$estimate + table$std.error %o% quantile(tails)
    }
    if (all(is.na(ends))) warn_missing(object, "no intervals", "the report has none")
    if (missing(parm)) return(ends)
    if (is.character(parm)) {
        unknown <- setdiff(parm, rownames(ends))
        if (length(unknown)) refuse("there is no coefficient `", unknown[[1]], "`", nearest(unknown[[1]], rownames(ends)))
    }
    ends[parm, , drop = FALSE]
}

percent <- function(shares) paste(format(100 * shares, trim = TRUE, scientific = FALSE, digits = 3), "%")

#' @rdname fedreg-methods
#' @export
logLik.fedreg <- function(object, ...) {
    value <- one(object$report$log_lik)
    # Akaike's criterion has the parameters in it, those of the other party and the dispersion among them.
    df <- round((object$aic + 2 * value) / 2)
    structure(value, df = df, nobs = object$nobs, class = "logLik")
}

#' @rdname fedreg-methods
#' @export
nobs.fedreg <- function(object, ...) object$nobs

#' @rdname fedreg-methods
#' @export
formula.fedreg <- function(x, ...) {
    if (is.null(x$formula)) {
        refuse("a report does not hold the formula: it is in the study, under `[parties.NAME]`")
    }
    x$formula
}

#' @rdname fedreg-methods
#' @export
family.fedreg <- function(object, ...) {
    known <- c("gaussian", "binomial", "poisson", "quasibinomial", "quasipoisson")
    name <- one(object$report$family, NA_character_)
    if (!name %in% known) refuse("the report says family ", name, ", which this package does not know")
    get(name, envir = asNamespace("stats"))(link = object$report$link)
}

#' @rdname fedreg-methods
#' @export
fitted.fedreg <- function(object, ...) stats::predict(object, type = "response")

#' @rdname fedreg-methods
#' @export
residuals.fedreg <- function(object, type = c("deviance", "pearson", "response"), ...) {
    type <- match.arg(type)
    own <- object$rehearsal
    if (is.null(own)) refuse("residuals are of rows, which a report does not hold; augment(fit, data) computes them for your rows")
    row_residuals(object, own$outcome, stats::fitted(object), own$weights, type)
}

#' @rdname fedreg-methods
#' @export
weights.fedreg <- function(object, ...) {
    own <- object$rehearsal
    if (is.null(own)) refuse("weights are of rows, which a report does not hold")
    if (is.null(own$weights)) rep(1, length(own$rows)) else own$weights
}

#' @rdname fedreg-methods
#' @method plot fedreg
#' @importFrom graphics plot
#' @export
plot.fedreg <- function(x, ...) {
    refuse(
        "plots are in the page report.html that the programs write: beside a report, ",
        "or in the folder `out` of fed_glm(..., out = \"folder\")"
    )
}

row_residuals <- function(object, outcome, mean, weights, type) {
    of <- stats::family(object)
    if (is.null(weights)) weights <- rep(1, length(mean))
    outcome <- as.numeric(outcome)
    switch(type,
        response = outcome - mean,
        pearson = (outcome - mean) * sqrt(weights / of$variance(mean)),
        deviance = ifelse(outcome > mean, 1, -1) * sqrt(pmax(of$dev.resids(outcome, mean, weights), 0))
    )
}

#' @rdname fedreg-methods
#' @export
print.fedreg <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
    cat(caution_lines(x$report), sep = "")
    cat("\nCall:  ", call_text(x), "\n\n", sep = "")
    cat("Coefficients:\n")
    print.default(format(x$coefficients, digits = digits), print.gap = 2L, quote = FALSE)
    held <- split(labels_of(x$table), factor(x$table$party, unique(x$table$party)))
    cat("\n")
    cat(wrapped(paste0(names(held), ":"), vapply(held, paste, "", collapse = ", ")), sep = "\n")
    if (!is.na(x$deviance)) {
        cat("\nDegrees of Freedom:", x$df.null, "Total (i.e. Null); ", x$df.residual, "Residual\n")
        cat("Null Deviance:\t   ", format(signif(x$null.deviance, digits)), "\n")
        cat("Residual Deviance:", format(signif(x$deviance, digits)), "\tAIC:", format(signif(x$aic, digits)), "\n")
        cat(missing_line(x$report))
    }
    cat("\n", ended(x), "\n", sep = "")
    invisible(x)
}

missing_line <- function(report) {
    count <- one(report$missing)
    if (is.na(count) || count == 0) return("")
    paste0("  (", counted(count, "observation"), " deleted due to missingness)\n")
}

call_text <- function(x) {
    if (!is.null(x$call)) return(paste(deparse(x$call), collapse = "\n"))
    paste(strwrap(paste(x$report$call, "(read from a report)"), width = min(getOption("width"), 100L), exdent = 4), collapse = "\n")
}

ended <- function(x) {
    rounds <- one(x$report$rounds)
    paste0(
        toupper(substring(x$mode, 1, 1)), substring(x$mode, 2), " mode, ", format(x$nobs, big.mark = ","), " rows; ",
        termination_words(x$report$termination), if (!is.na(rounds) && rounds > 0) paste0(" (", counted(rounds, "round"), ")")
    )
}

# Text beside a label, in lines of the terminal's width.
wrapped <- function(labels, text) {
    labels <- format(labels)
    unlist(Map(function(label, text) {
        strwrap(text, width = min(getOption("width"), 100L), initial = paste0(label, " "), exdent = nchar(label) + 1L)
    }, labels, text), use.names = FALSE)
}

caution_lines <- function(report) {
    caution <- report$caution
    if (is.null(caution)) return(character())
    rule <- strrep("*", min(getOption("width"), 72L))
    withheld <- if (isTRUE(caution$inference_withheld)) "p-values and intervals are withheld (NA)"
    paste0(c(rule, note_lines(toupper(caution$banner), c(unlist(caution$reasons), withheld)), rule), "\n")
}
