# Predictions: the columns of new rows, encoded as those of the fit were.

#' Predict from a federated fit
#'
#' Predictions need the coefficients of all parties: the merged report of a rehearsal, or a party's report of a study that shares
#' coefficients. In a real study nobody needs to have all columns of new rows: `alice predict` and `bob predict` score rows of which
#' each party has its own columns.
#'
#' For the result of [fed_glm()] R encodes new rows with what the fit took from the data (levels, knots, orthogonal
#' polynomials). A report alone has the names of its terms: columns, truth values, factors whose levels stand in `model.json` beside
#' the report, interactions, and `log`, `log2`, `log10`, `log1p`, `exp`, `sqrt` and `I()`. Terms that depend on the rows of the fit
#' (`poly`, `ns`, `bs`, `scale`, `cut`) are refused with the reason. A report does not hold the offset of a study either: add
#' it to predictions of `type = "link"`.
#'
#' @param object an object of class `fedreg`, from [fed_glm()] or [read_fedreg()].
#' @param newdata a data frame with the columns of all parties. By default the rows of the fit, which only the result of
#'   [fed_glm()] has.
#' @param type `"link"` for the linear predictor, `"response"` for the mean of the outcome.
#' @param se.fit refused: standard errors of predictions need the covariances between the parties' coefficients.
#' @param ... not used.
#' @return A number for each row; `NA` where a value is missing.
#' @examples
#' fit <- read_fedreg(system.file("extdata", "alice", package = "fedreg"))
#' rows <- data.frame(age = c(40, 70), female = TRUE, bmi = 25, region = "south", stay_days = 3)
#' predict(fit, rows, type = "response")
#' @export
predict.fedreg <- function(object, newdata = NULL, type = c("link", "response"), se.fit = FALSE, ...) {
    type <- match.arg(type)
    if (!identical(se.fit, FALSE)) {
        refuse("standard errors of predictions need the covariances between the parties' coefficients, and this report may not have them")
    }
    check_complete(object)
    if (!is.null(newdata) && !is.data.frame(newdata)) refuse("`newdata` is to be a data frame")
    if (is.null(newdata) && is.null(object$rehearsal)) {
        refuse("a report does not hold rows: give `newdata`, a data frame with the columns of all parties")
    }
    eta <- if (is.null(object$rehearsal)) score_by_names(object, newdata) else score_as_r(object, newdata)
    if (type == "response") stats::family(object)$linkinv(eta) else eta
}

# Refuses a report that lacks coefficients of other parties, or whose method predicts otherwise.
check_complete <- function(object) {
    report <- object$report
    if (!report$protocol %in% c("vertical", "robust")) {
        refuse("fits of the method ", report$protocol, " are predicted with `worker predict`")
    }
    holders <- unique(object$table$party)
    if (report$protocol == "vertical" && !is.null(report$role) && identical(holders, report$role)) {
        refuse(
            "the report holds the coefficients of ", report$role, " only (`coefficients = \"own\"` in the study): a prediction ",
            "needs those of all parties, and `", report$role, " predict` makes it together with them"
        )
    }
}

sum_of_terms <- function(object, columns) {
    values <- object$coefficients
    # A coefficient without an estimate belongs to a column that others of the fit determine.
    if (anyNA(values)) warning("coefficients without an estimate count as 0, as in `predict` of a rank-deficient `glm`", call. = FALSE)
    values[is.na(values)] <- 0
    drop(columns %*% values)
}

# --- rehearsals: R's own encoding -------------------------------------------------------------------------------------------

# The right side of the model as R's terms. `ns` and `bs` are at hand whether or not the user has attached `splines`.
model_terms <- function(object) {
    own <- object$rehearsal
    terms <- unlist(own$terms, use.names = FALSE)
    if (!own$intercept) terms <- c(0, terms)
    right <- Reduce(function(a, b) call("+", a, b), terms)
    env <- new.env(parent = environment(object$formula))
    env$ns <- splines::ns
    env$bs <- splines::bs
    stats::as.formula(call("~", right), env = env)
}

score_as_r <- function(object, newdata) {
    own <- object$rehearsal
    frame <- as.data.frame(own$frame, check.names = FALSE, optional = TRUE)
    fitted <- stats::model.frame(model_terms(object), frame, na.action = stats::na.pass)
    terms <- stats::terms(fitted)
    levels <- stats::.getXlevels(terms, fitted)
    offset <- own$offset
    if (is.null(newdata)) {
        rows <- fitted
        names <- rownames(own$data)
        offset <- offset$values[own$rows]
    } else {
        missing <- setdiff(names(own$frame), names(newdata))
        if (length(missing)) refuse("`newdata` lacks the column `", missing[[1]], "`", nearest(missing[[1]], names(newdata)))
        values <- lapply(stats::setNames(nm = names(own$frame)), function(name) new_values(newdata[[name]], own$frame[[name]], name))
        values <- as.data.frame(values, check.names = FALSE, optional = TRUE)
        rows <- stats::model.frame(terms, values, na.action = stats::na.pass, xlev = levels)
        names <- rownames(newdata)
        offset <- offset_of(offset, newdata)
    }
    factors <- names(levels)
    contrasts <- stats::setNames(rep(list("contr.treatment"), length(factors)), factors)
    matrix <- stats::model.matrix(terms, rows, contrasts.arg = if (length(contrasts)) contrasts)
    at <- columns_of_terms(object, matrix, attr(terms, "term.labels"))
    if (anyNA(at)) {
        refuse("R has no column of the name `", object$table$term[is.na(at)][[1]], "`, which is the programs': no prediction of this model")
    }
    eta <- sum_of_terms(object, matrix[, at, drop = FALSE])
    stats::setNames(eta + if (is.null(offset)) 0 else offset, names)
}

# R's column of each coefficient: by name among the columns of its party, as two parties may have a coefficient of one name.
columns_of_terms <- function(object, matrix, labels) {
    table <- object$table
    at <- rep(NA_integer_, nrow(table))
    of <- vapply(labels, function(label) {
        holders <- holder(parse(text = label, keep.source = FALSE)[[1]], object$parties)
        if (length(holders)) holders else NA_character_
    }, "")
    intercept <- which(attr(matrix, "assign") == 0)
    at[table$term == "(Intercept)"] <- intercept
    of <- c(NA, of)[attr(matrix, "assign") + 1]
    for (party in unique(table$party)) {
        own <- which(table$party == party & is.na(at))
        columns <- which(of == party | (is.na(of) & !seq_along(of) %in% intercept))
        at[own] <- columns[same_names(table$term[own], colnames(matrix)[columns])]
    }
    at
}

# Where R's columns have the programs' terms. R puts backticks around a name that is a term by itself, and a blank into `(26, Inf]`.
same_names <- function(terms, columns) {
    bare <- function(names, marks) gsub(marks, "", names)
    at <- match(bare(terms, "`"), bare(columns, "`"))
    tight <- bare(columns, "[` ]")
    tight[duplicated(tight) | duplicated(tight, fromLast = TRUE)] <- NA
    ifelse(is.na(at), match(bare(terms, "[` ]"), tight), at)
}

# New values of a column, of the kind that the fit had. A level that the fit did not have is an error, as in R.
new_values <- function(values, of_fit, name) {
    if (!is.factor(of_fit)) {
        if (is.numeric(of_fit) != is.numeric(values)) {
            refuse("the column `", name, "` of `newdata` is ", class(values)[[1]], ", and was ", class(of_fit)[[1]], " in the fit")
        }
        return(values)
    }
    values <- as.character(values)
    new <- setdiff(values[!is.na(values)], levels(of_fit))
    if (length(new)) refuse("the column `", name, "` of `newdata` has the level \"", new[[1]], "\", which no row of the fit had")
    factor(values, levels = levels(of_fit))
}

offset_of <- function(offset, newdata) {
    if (is.null(offset)) return(NULL)
    if (!offset$name %in% names(newdata)) {
        refuse("the fit has the offset `", offset$name, "`: give it as a column of `newdata` of this name")
    }
    newdata[[offset$name]]
}

# --- reports: columns from the names of terms -------------------------------------------------------------------------------

score_by_names <- function(object, newdata) {
    pieces <- unlist(lapply(object$table$term, interaction_pieces))
    lost <- setdiff(pieces[grepl(paste0("^(", paste(of_rows, collapse = "|"), ")\\("), pieces)], names(newdata))
    if (length(lost)) {
        refuse(
            "the term `", lost[[1]], "` was computed from the rows of the fit, which the report does not hold: ",
            "predict with `alice predict`, or from the result of fed_glm()"
        )
    }
    columns <- Map(named_column, object$table$term, object$table$party, MoreArgs = list(object = object, newdata = newdata))
    stats::setNames(sum_of_terms(object, do.call(cbind, unname(columns))), rownames(newdata))
}

# The column of a term: an intercept, or the product of its pieces. Of new rows, a party has no column that only another one's model has.
named_column <- function(term, party, object, newdata) {
    if (term == "(Intercept)") return(rep(1, nrow(newdata)))
    known <- object$levels
    # Estimates of sites are of all of them.
    own <- if (is.na(party)) do.call(c, unname(known)) else known[[party]]
    others <- if (!is.na(party)) setdiff(unlist(lapply(known[names(known) != party], names)), names(own))
    check_repeated(term, object$table$party[object$table$term == term], known, newdata)
    newdata <- newdata[setdiff(names(newdata), others)]
    if (term %in% names(newdata) && !length(level_pieces(term, newdata, own))) return(named_piece(term, newdata, own))
    Reduce(`*`, lapply(interaction_pieces(term), named_piece, newdata = newdata, levels = own))
}

# Where several parties have a coefficient of one name, it is of the columns that their model files say, and these must differ.
check_repeated <- function(term, holders, known, newdata) {
    if (length(holders) < 2) return(invisible())
    parties <- paste(holders, collapse = " and ")
    if (!all(holders %in% names(known))) {
        refuse(
            parties, " have a coefficient `", term, "` each, and the file model.json of each says of which column: ",
            "put it beside the report, or predict with `alice predict`"
        )
    }
    columns <- vapply(holders, function(of) c(level_pieces(term, newdata, known[[of]]), term)[[1]], "")
    if (anyDuplicated(columns)) {
        refuse(
            parties, " have a coefficient `", term, "` each, both of a column `", columns[[1]],
            "`, and `newdata` can have but one of that name: predict with `alice predict`"
        )
    }
}

# Columns with a level that makes a piece of a term.
level_pieces <- function(piece, newdata, levels) {
    Filter(
        function(name) startsWith(piece, name) && substring(piece, nchar(name) + 1) %in% levels[[name]],
        intersect(names(newdata), names(levels))
    )
}

# Splits `a:log(b)` at colons that are in no bracket and no text.
interaction_pieces <- function(term) {
    letters <- strsplit(term, "")[[1]]
    text <- cumsum(letters == "\"") %% 2 == 1
    depth <- cumsum(ifelse(text, 0, (letters %in% c("(", "[")) - (letters %in% c(")", "]"))))
    cuts <- which(letters == ":" & depth == 0 & !text)
    starts <- c(1, cuts + 1)
    ends <- c(cuts - 1, length(letters))
    substring(term, starts, ends)
}

# Functions whose values depend on more than the row, or whose levels are not in the report.
of_rows <- c("poly", "ns", "bs", "scale", "cut", "factor")
of_values <- c("log", "log2", "log10", "log1p", "exp", "sqrt", "I", "+", "-", "*", "/", "^", "(", "c")

named_piece <- function(piece, newdata, levels) {
    if (piece %in% names(newdata) && !length(level_pieces(piece, newdata, levels))) {
        values <- newdata[[piece]]
        if (!is.numeric(values)) refuse("the column `", piece, "` of `newdata` is ", class(values)[[1]], ", and was a number in the fit")
        return(as.numeric(values))
    }
    level <- level_column(piece, newdata, levels)
    if (!is.null(level)) return(level)
    expression <- tryCatch(parse(text = piece, keep.source = FALSE)[[1]], error = function(e) NULL)
    functions <- setdiff(all.names(expression), all.vars(expression))
    if (is.call(expression) && all(functions %in% of_values)) {
        lacking <- setdiff(all.vars(expression), names(newdata))
        if (!length(lacking)) return(as.numeric(eval(expression, newdata, baseenv())))
        refuse("`newdata` lacks the column `", lacking[[1]], "`, which the term `", piece, "` needs", nearest(lacking[[1]], names(newdata)))
    }
    refuse("`newdata` has no column for the term `", piece, "`", nearest(piece, names(newdata)))
}

# Truth values, also as text: `read.csv` leaves "true" as it is.
is_truth <- function(values) is.logical(values) || all(tolower(values) %in% c("true", "false", NA))

# 0 and 1 for a level of a factor or a truth value: the name of the term is the header joined to the level.
level_column <- function(piece, newdata, levels) {
    for (name in names(newdata)[startsWith(piece, names(newdata))]) {
        level <- substring(piece, nchar(name) + 1)
        values <- newdata[[name]]
        if (level %in% c("TRUE", "FALSE") && is.null(levels[[name]]) && is_truth(values)) {
            return(as.numeric(tolower(values) == tolower(level)))
        }
        if (!is.factor(values) && !is.character(values) && is.null(levels[[name]])) next
        known <- levels[[name]]
        if (is.null(known)) {
            refuse(
                "the levels of `", name, "` are not in the report but in the file model.json of the party that holds it: ",
                "put it beside the report, or predict with `alice predict`"
            )
        }
        if (!level %in% known) next
        values <- as.character(values)
        new <- setdiff(values[!is.na(values)], known)
        if (length(new)) refuse("the column `", name, "` of `newdata` has the level \"", new[[1]], "\", which no row of the fit had")
        return(as.numeric(values == level))
    }
    NULL
}
