# Methods of tidy, glance and augment, with broom's names of columns.

#' @importFrom generics tidy
#' @export
generics::tidy

#' @importFrom generics glance
#' @export
generics::glance

#' @importFrom generics augment
#' @export
generics::augment

#' Data frames of a federated fit
#'
#' `tidy` has a row for each coefficient, `glance` one row for the fit, `augment` a row for each row of data, with the names of columns that
#' package broom gives them for a `glm`.
#'
#' `augment` has no leverages (`.hat`), and so no `.std.resid`, `.sigma` and `.cooksd`: they need the joint covariance matrix, which no
#' party knows.
#'
#' @param x an object of class `fedreg`, from [fed_glm()] or [read_fedreg()].
#' @param conf.int whether there are columns with an interval.
#' @param conf.level its level.
#' @param exponentiate whether estimates and intervals are exponentiated: odds ratios and rate ratios.
#' @param data rows with the outcome and the columns of all parties; by default those of the fit, which only the result of
#'   [fed_glm()] has. Of a table of a real study give `data`.
#' @param newdata new rows; the outcome may be absent, and then there are no residuals.
#' @param type.predict,type.residuals type of predictions and residuals.
#' @param ... not used.
#' @return A data frame.
#' - `tidy`: `term`, `estimate`, `std.error`, `statistic`, `p.value`, with `conf.int = TRUE` also `conf.low` and `conf.high`, and last the
#'   `party` that holds the column.
#' - `glance`: `null.deviance`, `df.null`, `logLik`, `AIC`, `BIC`, `deviance`, `df.residual`, `nobs`.
#' - `augment`: the rows with `.fitted`, and `.resid` where the outcome is known.
#' @name tidiers
#' @examples
#' fit <- read_fedreg(system.file("extdata", "alice", package = "fedreg"))
#' tidy(fit, exponentiate = TRUE, conf.int = TRUE)
#' glance(fit)
NULL

#' @rdname tidiers
#' @method tidy fedreg
#' @export
tidy.fedreg <- function(x, conf.int = FALSE, conf.level = 0.95, exponentiate = FALSE, ...) {
    table <- x$table[c("term", "estimate", "std.error", "statistic", "p.value")]
    if (conf.int) table[c("conf.low", "conf.high")] <- stats::confint(x, level = conf.level)
    if (exponentiate) {
        ends <- intersect(c("estimate", "conf.low", "conf.high"), names(table))
        table[ends] <- exp(table[ends])
    }
    table$party <- x$table$party
    table
}

#' @rdname tidiers
#' @method glance fedreg
#' @export
glance.fedreg <- function(x, ...) {
    data.frame(
        null.deviance = x$null.deviance, df.null = x$df.null, logLik = as.numeric(stats::logLik(x)), AIC = x$aic,
        BIC = one(x$report$bic), deviance = x$deviance, df.residual = x$df.residual, nobs = x$nobs
    )
}

#' @rdname tidiers
#' @method augment fedreg
#' @export
augment.fedreg <- function(x, data = NULL, newdata = NULL, type.predict = c("link", "response"),
                           type.residuals = c("deviance", "pearson"), ...) {
    type.predict <- match.arg(type.predict)
    type.residuals <- match.arg(type.residuals)
    own <- x$rehearsal
    if (is.null(data) && is.null(newdata) && is.null(own)) {
        refuse("a report does not hold rows: give `data` or `newdata`, a data frame with the columns of all parties")
    }
    of_fit <- is.null(data) && is.null(newdata)
    rows <- if (!is.null(newdata)) newdata else if (!is.null(data)) data else own$data
    mean <- stats::predict(x, if (!of_fit) rows, type = "response")
    # As broom has it: names of rows become a column.
    if (.row_names_info(rows) > 0L && !".rownames" %in% names(rows)) {
        rows <- cbind(.rownames = rownames(rows), rows, stringsAsFactors = FALSE)
        rownames(rows) <- NULL
    }
    rows$.fitted <- unname(if (type.predict == "response") mean else stats::family(x)$linkfun(mean))
    outcome <- if (of_fit) own$outcome else outcome_in(x, rows)
    if (is.null(outcome)) return(rows)
    rows$.resid <- unname(row_residuals(x, outcome, mean, if (of_fit) own$weights, type.residuals))
    rows
}

# The outcome of rows that are not those of the fit, where it is among their columns.
outcome_in <- function(x, rows) {
    if (is.null(x$formula)) return(rows[[x$report$outcome]])
    if (!all(all.vars(x$formula[[2]]) %in% names(rows))) return(NULL)
    outcome_of(x$formula, rows, x$report$family)$values
}
