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
#' @param newdata new rows; the outcome may be absent, and the weights of a fit that has some, and then there are no residuals.
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
    weights <- if (of_fit || is.null(own$weights)) own$weights else weights_in(x, rows)
    if (!is.null(own$weights) && is.null(weights)) {
        # Of new rows without weights there are no residuals, as of those without an outcome.
        if (!is.null(newdata)) return(rows)
        refuse("the fit has the weights `", as_written(own$weighed), "`, which `data` does not give for each row")
    }
    rows$.resid <- unname(row_residuals(x, outcome, mean, weights, type.residuals))
    rows
}

# The weights of rows that are not those of the fit, where they give them.
weights_in <- function(x, rows) {
    own <- x$rehearsal
    if (!all(intersect(all.vars(own$weighed), own$columns) %in% names(rows))) return(NULL)
    values <- tryCatch(eval(own$weighed, rows, environment(x$formula)), error = function(e) NULL)
    if (is.numeric(values) && length(values) == nrow(rows)) values
}

# The outcome of rows that are not those of the fit, where it is among their columns.
outcome_in <- function(x, rows) {
    if (is.null(x$formula)) return(coded_outcome(rows[[x$report$outcome]], reported_levels(x$report), x$report))
    left <- x$formula[[2]]
    if (!all(intersect(all.vars(left), x$rehearsal$columns) %in% names(rows))) return(NULL)
    coded_outcome(eval(left, rows, environment(x$formula)), x$rehearsal$levels, x$report)
}

# An outcome of two levels as 0 and 1, by the levels of the fit and not by those that the rows happen to have.
coded_outcome <- function(values, levels, report) {
    if (!report$family %in% c("binomial", "quasibinomial") || !(is.factor(values) || is.character(values))) return(values)
    values <- as.character(values)
    if (is.null(levels)) levels <- sort(unique(values[!is.na(values)]), method = "radix")
    if (length(levels) < 2) {
        refuse("the outcome `", report$outcome, "` has one level in these rows, and the report does not say whether it is 0 or 1: give numbers")
    }
    new <- setdiff(values[!is.na(values)], levels)
    if (length(new)) refuse("the outcome `", report$outcome, "` has the level \"", new[[1]], "\", which no row of the fit had")
    as.integer(values != levels[[1]])
}

# Of an outcome of text a note of the report says which level is 0 and which is 1.
reported_levels <- function(report) {
    found <- regmatches(unlist(report$notes), regexec("^outcome `.*`: `(.*)` is 0 and `(.*)` is 1$", unlist(report$notes)))
    found <- Filter(length, found)
    if (length(found)) found[[1]][-1]
}
