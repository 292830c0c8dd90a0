# Summary of a fit, in the form of `summary(glm(...))`.

#' @rdname fedreg-methods
#' @export
summary.fedreg <- function(object, ...) {
    table <- object$table
    # As in R: t where the dispersion is estimated. Private errors hold noise of known size, and have no degrees of freedom.
    t <- object$report$family %in% c("gaussian", "quasibinomial", "quasipoisson") && !is.na(object$df.residual)
    estimated <- !is.na(table$estimate)
    matrix <- as.matrix(table[estimated, c("estimate", "std.error", "statistic", "p.value")])
    dimnames(matrix) <- list(
        labels_of(table)[estimated],
        c("Estimate", "Std. Error", if (t) c("t value", "Pr(>|t|)") else c("z value", "Pr(>|z|)"))
    )
    structure(
        list(
            call = object$call, coefficients = matrix, party = table$party[estimated],
            aliased = stats::setNames(!estimated, labels_of(table)), dispersion = object$dispersion,
            df.residual = object$df.residual, df.null = object$df.null, deviance = object$deviance,
            null.deviance = object$null.deviance, aic = object$aic, fit = object
        ),
        class = "summary.fedreg"
    )
}

#' @rdname fedreg-methods
#' @export
print.summary.fedreg <- function(x, digits = max(3L, getOption("digits") - 3L),
                                 signif.stars = getOption("show.signif.stars"), ...) {
    report <- x$fit$report
    cat(caution_lines(report), sep = "")
    cat("\nCall:\n", call_text(x$fit), "\n\n", sep = "")
    without <- sum(x$aliased)
    cat("Coefficients:", if (without) paste0(" (", without, " not defined because of singularities)"), "\n", sep = "")
    print_coefficients(x, digits, signif.stars)
    if (!is.na(x$dispersion)) {
        cat("\n(Dispersion parameter for ", report$family, " family taken to be ", format(x$dispersion), ")\n\n", sep = "")
    } else if (!is.na(x$deviance) || identical(x$fit$mode, "private")) {
        cat("\n")
    }
    if (!is.na(x$deviance)) {
        values <- format(signif(c(x$null.deviance, x$deviance), max(5L, digits + 1L)))
        # Penalised fits have none.
        df <- if (is.na(x$df.residual)) "" else paste0("  on ", format(c(x$df.null, x$df.residual)), "  degrees of freedom")
        cat(paste0(c("    Null deviance: ", "Residual deviance: "), values, df, "\n"), sep = "")
        cat(missing_line(report))
        if (!is.na(x$aic)) cat("AIC: ", format(x$aic, digits = max(4L, digits + 1L)), "\n", sep = "")
    } else if (identical(x$fit$mode, "private")) {
        cat("Deviances and AIC are NA: nobody may look at them in private mode\n")
    }
    cat(paste0(measure_lines(report, digits), "\n"), sep = "")
    cat("\n")
    cat(paste0(account_lines(x$fit), "\n"), sep = "")
    cat("\n")
    invisible(x)
}

# The coefficient table with the holder of each, between name and numbers.
print_coefficients <- function(x, digits, signif.stars) {
    all <- x$fit$table
    matrix <- matrix(NA_real_, nrow(all), 4, dimnames = list(labels_of(all), colnames(x$coefficients)))
    matrix[!x$aliased, ] <- x$coefficients
    rownames(matrix) <- paste(format(rownames(matrix)), format(c("Party", all$party))[-1])
    # A line for each coefficient, however narrow the terminal is: the heading is put into it.
    wide <- options(width = 10000L)
    on.exit(options(wide))
    lines <- utils::capture.output(stats::printCoefmat(
        matrix, digits = digits, signif.stars = signif.stars && any(!is.na(matrix[, 4])), na.print = "NA",
        has.Pvalue = TRUE, P.values = TRUE, cs.ind = 1:2, tst.ind = 3
    ))
    start <- max(nchar(labels_of(all))) + 2
    heading <- lines[[1]]
    substr(heading, start, start + 4) <- "Party"
    cat(c(heading, lines[-1]), sep = "\n")
}

test_text <- function(test, name) {
    if (is.null(test)) return(character())
    df <- if (is.null(test$df_residual)) paste0(test$df, " DF") else paste0(test$df, " and ", test$df_residual, " DF")
    p <- format.pval(test$p_value, digits = 3)
    paste0(name, ": ", format(test$statistic, digits = 4), " on ", df, ", p-value: ", p)
}

measure_lines <- function(report, digits) {
    number <- function(value, name) if (is.null(value)) character() else paste0(name, ": ", format(value, digits = digits))
    performance <- report$performance
    of <- list(
        c(number(report$r_squared, "R squared"), number(report$adj_r_squared, "Adjusted R squared")),
        test_text(report$f_test, "F statistic"),
        c(number(report$mcfadden_r_squared, "McFadden R squared"), test_text(report$lr_test, "Likelihood ratio test")),
        if (!is.null(performance$auc)) {
            c(
                paste0(
                    "Area under the ROC curve: ", format(performance$auc, digits = digits), " [",
                    format(one(performance$auc_low), digits = digits), ", ", format(one(performance$auc_high), digits = digits), "]"
                ),
                number(performance$brier, "Brier score")
            )
        },
        test_text(performance$hosmer_lemeshow, "Hosmer-Lemeshow test")
    )
    lines <- vapply(Filter(length, of), paste, "", collapse = ",  ")
    if (length(lines)) c("", lines)
}

# How the fit ended, what left each party, what privacy holds, and notes.
account_lines <- function(fit) {
    report <- fit$report
    left <- by_role(report, "disclosure")
    privacy <- Filter(length, by_role(report, "privacy"))
    of <- function(label, account) if (length(account)) wrapped(c(label, rep("", length(account) - 1)), account) else character()
    c(
        if (!is.null(report$refit)) wrapped("Model:  ", sub_model_text(report$refit)),
        wrapped("Ended:  ", ended(fit)),
        if (!is.null(report$errors)) wrapped("Errors: ", paste0(report$errors, ", from the residuals of the rows")),
        if (!is.null(report$lambda)) wrapped("Penalty:", paste("lambda =", format(report$lambda, digits = 4))),
        of("Left:   ", mapply(left_text, names(left), left)),
        of("Privacy:", privacy_text(privacy)),
        note_lines("Notes:", unlist(report$notes))
    )
}

sub_model_text <- function(refit) {
    dropped <- vapply(refit$dropped, function(term) paste0(term$term, " (", term$party, ")"), "")
    paste0(
        "sub-model of the run ", refit$run, ", from what opened in it",
        if (length(dropped)) paste0("; left out: ", paste(dropped, collapse = ", "))
    )
}

counted <- function(count, what) paste0(format(count, big.mark = ","), " ", what, if (count != 1) "s")

# Terms with a share each, those of one share together.
shares_text <- function(columns) {
    shares <- paste0(round(100 * field(columns, "share")), " %")
    terms <- split(field(columns, "term", NA_character_), factor(shares, unique(shares)))
    paste0(vapply(terms, paste, "", collapse = ", "), " (", names(terms), ")", collapse = "; ")
}

left_text <- function(role, left) {
    vectors <- one(left$vectors)
    opened <- left$opened
    parts <- c(
        if (length(opened)) {
            what <- vapply(opened, function(o) paste0(o$what, " opened to ", o$to, " (", counted(o$numbers, "number"), ")"), "")
            paste(what, collapse = "; ")
        } else if (!is.na(vectors) && vectors > 0) {
            paste(counted(vectors, "vector"), "with a value a row")
        } else {
            paste(unlist(left$declared), collapse = ", ")
        },
        if (length(left$columns)) {
            paste(if (length(opened)) "the receiver could predict" else "the receiver can reconstruct", shares_text(left$columns))
        }
    )
    parts <- parts[nzchar(parts)]
    paste0(role, ": ", if (length(parts)) paste(parts, collapse = "; ") else "nothing")
}

# Budgets by party, then what they promise, once where it is the same for all.
privacy_text <- function(privacy) {
    if (!length(privacy)) return(character())
    budgets <- paste0(
        names(privacy), ": epsilon ", vapply(privacy, function(p) format(one(p$epsilon)), ""), " at delta ",
        vapply(privacy, function(p) format(one(p$delta)), "")
    )
    each <- function(name, before) {
        words <- unique(unlist(lapply(privacy, `[[`, name)))
        if (length(words)) paste0(before, words)
    }
    c(budgets, each("unit", "of "), each("adversary", "against "), each("not_protected", "not protected: "))
}

note_lines <- function(heading, notes) {
    if (!length(notes)) return(character())
    c(heading, unlist(lapply(notes, strwrap, width = min(getOption("width"), 100L), initial = "  - ", exdent = 4)))
}
