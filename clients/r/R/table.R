# A data frame as the programs read it: text of cells that reads back as the same values, and factors with R's levels.

# Text of a column. Fifteen digits where they are the number, seventeen where they are not.
cells <- function(column, name) {
    if (inherits(column, c("Date", "POSIXt"))) return(cell_text(format(column)))
    if (is.factor(column) || is.character(column)) return(cell_text(as.character(column)))
    if (is.logical(column)) return(ifelse(is.na(column), "", ifelse(column, "TRUE", "FALSE")))
    if (inherits(column, "integer64")) return(ifelse(is.na(column), "", as.character(column)))
    if (!is.numeric(column) || !is.null(dim(column))) {
        refuse(
            "column `", name, "` is ", paste(class(column), collapse = " "),
            ": numbers, truth values, text and factors can be columns of a model"
        )
    }
    # NaN is missing to `na.omit` too.
    there <- !is.na(column)
    known <- as.numeric(column)[there]
    text <- character(length(known))
    # A quick look first: most columns are either short numbers or long ones throughout.
    short <- signif(known, 15) == known
    text[short] <- sprintf("%.15g", known[short])
    short[short] <- as.numeric(text[short]) == known[short]
    text[!short] <- sprintf("%.17g", known[!short])
    replace(character(length(column)), there, text)
}

cell_text <- function(text) {
    text <- enc2utf8(text)
    ifelse(is.na(text), "", paste0("\"", gsub("\"", "\"\"", text, fixed = TRUE), "\""))
}

# Refuses levels that the programs read as a missing value, but for those that public levels of a private run declare.
check_levels <- function(columns, bounds) {
    for (name in names(columns)) {
        column <- columns[[name]]
        if (!is.factor(column) && !is.character(column)) next
        levels <- if (is.factor(column)) levels(droplevels(column)) else unique(column[!is.na(column)])
        if (anyNA(levels)) {
            refuse("column `", name, "` has NA among its levels (`addNA`), and the programs read it as a missing value: give it a name")
        }
        bare <- gsub("^[ \t\r\n\f]+|[ \t\r\n\f]+$", "", levels)
        told <- if (is.list(bounds)) as.character(bounds[[name]]) else if (is.character(bounds)) "NA"
        lost <- levels[bare %in% setdiff(c("", "NA"), told)]
        if (length(lost)) {
            refuse(
                "column `", name, "` has the level \"", lost[[1]], "\", which the programs read as a missing value: ",
                "give the level another name, and make it NA where a value is missing"
            )
        }
    }
}

write_table <- function(columns, path) {
    lines <- do.call(paste, c(unname(columns), sep = ","))
    header <- paste(cell_text(names(columns)), collapse = ",")
    connection <- file(path, "wb")
    on.exit(close(connection))
    writeLines(c(header, lines), connection, sep = "\n", useBytes = TRUE)
}

# A list of columns, or a cell of one, as the programs' flags take it.
list_item <- function(name) if (grepl("[,\"]", name)) cell_text(name) else enc2utf8(name)

# Texts that the programs read as numbers or truth values where no levels are declared.
looks_like_values <- function(levels) {
    any(!is.na(suppressWarnings(as.numeric(levels)))) || all(tolower(levels) %in% c("true", "false"))
}

# Text columns become factors with levels in the order of bytes, as the programs have them, and factors lose what is in no row.
# `declared` are levels that the bounds of a private run state.
as_encoded <- function(column, name, declared) {
    if (!is.null(declared[[name]]) && (is.factor(column) || is.character(column))) {
        return(factor(as.character(column), levels = as.character(declared[[name]])))
    }
    if (is.character(column)) return(factor(column, levels = sort(unique(column[!is.na(column)]), method = "radix")))
    if (is.ordered(column)) {
        warning(
            "`", name, "` is an ordered factor: its levels are compared with the first one, where `glm` takes polynomials",
            call. = FALSE
        )
        return(droplevels(factor(column, ordered = FALSE)))
    }
    if (is.factor(column)) return(droplevels(column))
    column
}

# Factors whose levels the programs would put into another order, or would not see as levels: by name, the levels to declare.
levels_to_declare <- function(frame) {
    levels <- lapply(Filter(is.factor, frame), levels)
    Filter(function(of) is.unsorted(order(of, method = "radix")) || looks_like_values(of), levels)
}

# The formula of one party as text. A factor whose levels must be declared is written with them; `words` collects what the programs
# will call it and what R calls it.
party_formula <- function(terms, declare) {
    words <- character()
    place <- function(piece) {
        name <- if (is.name(piece)) as.character(piece) else ""
        if (is.call(piece) && length(piece) == 2 && identical(piece[[1]], as.name("factor")) && is.name(piece[[2]])) {
            name <- as.character(piece[[2]])
        }
        if (nzchar(name) && name %in% names(declare)) {
            key <- paste0(".declared", match(name, names(declare)), if (is.call(piece)) "c", ".")
            words[[key]] <<- if (is.name(piece)) name else as_written(piece)
            return(as.name(key))
        }
        if (is.call(piece) && deparse(piece[[1]])[[1]] %in% c("+", "*", ":", "^", "(")) {
            piece[-1] <- lapply(as.list(piece)[-1], place)
        }
        piece
    }
    text <- paste("~", paste(vapply(terms, function(term) as_written(place(term)), ""), collapse = " + "))
    spoken <- character()
    for (key in names(words)) {
        column <- names(declare)[[as.integer(gsub("[^0-9]", "", key))]]
        levels <- gsub("([\"\\\\])", "\\\\\\1", enc2utf8(declare[[column]]))
        call <- paste0("factor(", as_written(as.name(column)), ", levels = c(\"", paste(levels, collapse = "\", \""), "\"))")
        text <- gsub(key, call, text, fixed = TRUE)
        spoken[[call]] <- words[[key]]
    }
    list(text = text, spoken = spoken)
}

# What a party's flag says: a list of columns where all its terms are columns, as private mode wants it, and a formula otherwise.
party_columns <- function(terms, declare) {
    plain <- vapply(terms, is.name, NA)
    names <- vapply(terms[plain], as.character, "")
    # A list that begins with a tilde would be a formula.
    if (all(plain) && !any(names %in% names(declare)) && !any(startsWith(names, "~"))) {
        return(list(text = paste(vapply(names, list_item, ""), collapse = ","), spoken = character()))
    }
    party_formula(terms, declare)
}

# Public bounds of a private run as TOML: two numbers are a range, text is levels.
write_bounds <- function(bounds, outcome, path) {
    value <- function(x) {
        if (is.numeric(x)) return(paste0("[", paste(sprintf("%.17g", x), collapse = ", "), "]"))
        paste0("[", paste(toml_text(as.character(x)), collapse = ", "), "]")
    }
    part <- function(heading, entries) {
        if (length(entries)) c(heading, paste(toml_text(names(entries)), "=", vapply(entries, value, "")))
    }
    of_outcome <- names(bounds) %in% outcome
    of_levels <- !of_outcome & !vapply(bounds, is.numeric, NA)
    lines <- c(
        part("[columns]", bounds[!of_outcome & !of_levels]), part("[levels]", bounds[of_levels]),
        part("[outcome]", bounds[of_outcome])
    )
    connection <- file(path, "wb")
    on.exit(close(connection))
    writeLines(enc2utf8(lines), connection, sep = "\n", useBytes = TRUE)
}

toml_text <- function(text) paste0("\"", gsub("([\"\\\\])", "\\\\\\1", enc2utf8(text)), "\"")

check_bounds <- function(bounds, known) {
    if (is.character(bounds) && length(bounds) == 1 && is.null(names(bounds))) {
        if (!file.exists(bounds)) refuse("`bounds`: there is no file ", bounds)
        return(invisible())
    }
    if (!is.list(bounds) || is.null(names(bounds)) || any(!nzchar(names(bounds)))) {
        refuse("`bounds` is a file, or a list such as list(age = c(18, 90), region = c(\"north\", \"south\"))")
    }
    for (name in names(bounds)) {
        if (!name %in% known) refuse("`bounds`: `", name, "` is no column of the model", nearest(name, known))
        of <- bounds[[name]]
        if (is.numeric(of) && !(length(of) == 2 && !anyNA(of) && of[[1]] < of[[2]])) {
            refuse("`bounds`: `", name, "` is to have two numbers, the smaller one first")
        }
    }
}
